// A small agent: two tools and a loop of turns, on one of the SDKs.
//
//     node loop.mjs SDK URL MODEL PROMPT
//
// What each SDK needs is in its own function; every one prints the last text, and a failure as a line of JSON.

import { execSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [sdk, url, model, prompt] = process.argv.slice(2);
const installed = createRequire(join(process.env.DRAGOMAN_AGENTS, "package.json"));
const load = (name) => import(pathToFileURL(installed.resolve(name)).href);
const MOST_TURNS = 10;
const MOST_TOKENS = 64_000;
const KEY = "dragoman";

const run = {
  shell: ({ command }) => execSync(command, { encoding: "utf8" }),
  write: ({ path, content }) => {
    writeFileSync(path, content);
    return `wrote ${content.length} characters`;
  },
};
const text = { type: "string" };
const schemas = {
  shell: { type: "object", properties: { command: text }, required: ["command"] },
  write: {
    type: "object",
    properties: { path: text, content: text },
    required: ["path", "content"],
  },
};
const says = { shell: "Run a command.", write: "Write a file." };

async function aiSdk(make) {
  const { streamText, tool, jsonSchema, stepCountIs } = await load("ai");
  const tools = Object.fromEntries(
    Object.keys(run).map((name) => [
      name,
      tool({
        description: says[name],
        inputSchema: jsonSchema(schemas[name]),
        execute: async (given) => run[name](given),
      }),
    ]),
  );
  let failure;
  const result = streamText({
    model: await make(),
    prompt,
    tools,
    stopWhen: stepCountIs(MOST_TURNS),
    maxRetries: 1,
    maxOutputTokens: MOST_TOKENS,
    onError: ({ error }) => {
      failure = error;
    },
  });
  let last = "";
  for await (const part of result.fullStream) {
    if (part.type === "start-step") last = "";
    if (part.type === "text-delta") last += part.text;
  }
  if (failure) throw failure;
  return last;
}

const chatTools = Object.keys(run).map((name) => ({
  type: "function",
  function: {
    name,
    description: says[name],
    parameters: schemas[name],
    parse: JSON.parse,
    function: (given) => run[name](given),
  },
}));

const googleTools = [
  {
    functionDeclarations: Object.keys(run).map((name) => ({
      name,
      description: says[name],
      parametersJsonSchema: schemas[name],
    })),
  },
];
const answered = ({ id, name, args }) => ({
  functionResponse: { id, name, response: { output: run[name](args) } },
});
const shown = (parts) => parts.map((part) => (part.thought ? "" : part.text)).join("");

const sdks = {
  "ai-messages": () =>
    aiSdk(async () => {
      const { createAnthropic } = await load("@ai-sdk/anthropic");
      return createAnthropic({ baseURL: `${url}/v1`, apiKey: KEY })(model);
    }),
  "ai-chat": () =>
    aiSdk(async () => {
      const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
      return createOpenAICompatible({ name: "dragoman", baseURL: `${url}/v1`, apiKey: KEY })(model);
    }),
  "ai-responses": () =>
    aiSdk(async () => {
      const { createOpenAI } = await load("@ai-sdk/openai");
      return createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY }).responses(model);
    }),
  "ai-gemini": () =>
    aiSdk(async () => {
      const { createGoogleGenerativeAI } = await load("@ai-sdk/google");
      const google = createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey: KEY });
      return google(`models/${model}`);
    }),
  "google-stream": async () => {
    const { GoogleGenAI } = await load("@google/genai");
    const client = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: url, retryOptions: { attempts: 2 } } });
    const contents = [{ role: "user", parts: [{ text: prompt }] }];
    for (let turn = 0; turn < MOST_TURNS; turn += 1) {
      const config = { tools: googleTools, thinkingConfig: { includeThoughts: true } };
      const stream = await client.models.generateContentStream({ model, contents, config });
      const parts = [];
      for await (const chunk of stream) parts.push(...chunk.candidates[0].content.parts);
      const calls = parts.map((part) => part.functionCall).filter(Boolean);
      if (!calls.length) return shown(parts);
      contents.push({ role: "model", parts }, { role: "user", parts: calls.map(answered) });
    }
    throw new Error("no end of turns");
  },
  "google-chats": async () => {
    const { GoogleGenAI } = await load("@google/genai");
    const client = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: url, retryOptions: { attempts: 2 } } });
    const chat = client.chats.create({ model, config: { tools: googleTools } });
    let message = prompt;
    for (let turn = 0; turn < MOST_TURNS; turn += 1) {
      const parts = [];
      for await (const chunk of await chat.sendMessageStream({ message })) {
        parts.push(...chunk.candidates[0].content.parts);
      }
      const calls = parts.map((part) => part.functionCall).filter(Boolean);
      if (!calls.length) return shown(parts);
      message = calls.map(answered);
    }
    throw new Error("no end of turns");
  },
  "openai-chat": async () => {
    const { default: OpenAI } = await load("openai");
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 1 });
    const runner = client.chat.completions.runTools(
      { model, stream: true, messages: [{ role: "user", content: prompt }], tools: chatTools },
      { maxChatCompletions: MOST_TURNS },
    );
    return runner.finalContent();
  },
  "openai-responses": async () => {
    const { default: OpenAI } = await load("openai");
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 1 });
    const tools = Object.keys(run).map((name) => ({
      type: "function",
      name,
      description: says[name],
      parameters: schemas[name],
      strict: false,
    }));
    const input = [{ role: "user", content: prompt }];
    for (let turn = 0; turn < MOST_TURNS; turn += 1) {
      const include = ["reasoning.encrypted_content"];
      const response = await client.responses
        .stream({ model, input, tools, store: false, include })
        .finalResponse();
      if (response.status !== "completed") throw new Error(response.error?.message);
      const calls = response.output.filter((item) => item.type === "function_call");
      const said = response.output.filter((item) => item.type === "message");
      if (!calls.length) return said.map((item) => item.content[0].text).join("");
      input.push(...response.output);
      for (const call of calls) {
        const output = run[call.name](JSON.parse(call.arguments));
        input.push({ type: "function_call_output", call_id: call.call_id, output });
      }
    }
    throw new Error("no end of turns");
  },
  "anthropic-messages": async () => {
    const { default: Anthropic } = await load("@anthropic-ai/sdk");
    const client = new Anthropic({ baseURL: url, apiKey: KEY, maxRetries: 1 });
    const tools = Object.keys(run).map((name) => ({
      name,
      description: says[name],
      input_schema: schemas[name],
    }));
    const messages = [{ role: "user", content: prompt }];
    for (let turn = 0; turn < MOST_TURNS; turn += 1) {
      const message = await client.messages
        .stream({ model, max_tokens: MOST_TOKENS, messages, tools })
        .finalMessage();
      const calls = message.content.filter((block) => block.type === "tool_use");
      const said = message.content.filter((block) => block.type === "text");
      if (!calls.length) return said.map((block) => block.text).join("");
      messages.push({ role: "assistant", content: message.content });
      messages.push({
        role: "user",
        content: calls.map((call) => ({
          type: "tool_result",
          tool_use_id: call.id,
          content: run[call.name](call.input),
        })),
      });
    }
    throw new Error("no end of turns");
  },
};

try {
  console.log(await sdks[sdk]());
} catch (error) {
  const { name, message, status, statusCode } = error;
  console.error(JSON.stringify({ name, message, status: status ?? statusCode }));
  process.exit(1);
}
