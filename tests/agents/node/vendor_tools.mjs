// Two turns with MCP servers that the provider calls, or with images that it makes, on one of the AI SDK's packages.
//
//     node vendor_tools.mjs mcp|image SDK URL MODEL...
//
// Prints a line of JSON for each turn: the text, the calls and what they returned, the images, and a failure if there
// was one.

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [kind, sdk, url, ...models] = process.argv.slice(2);
const installed = createRequire(join(process.env.DRAGOMAN_AGENTS, "package.json"));
const load = (name) => import(pathToFileURL(installed.resolve(name)).href);
const { streamText } = await load("ai");
const KEY = "dragoman";
const SERVER = "https://mcp.example";
globalThis.AI_SDK_LOG_WARNINGS = false; // lines of JSON are all that is read

const packages = {
  messages: async () => {
    const { createAnthropic } = await load("@ai-sdk/anthropic");
    const made = createAnthropic({ baseURL: `${url}/v1`, apiKey: KEY });
    const options = { anthropic: { mcpServers: [{ type: "url", name: "notes", url: SERVER }] } };
    return { model: made, ways: { mcp: { options } } };
  },
  responses: async () => {
    const { createOpenAI } = await load("@ai-sdk/openai");
    const made = createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY });
    const options = { openai: { store: false } };
    const mcp = { mcp: made.tools.mcp({ serverLabel: "notes", serverUrl: SERVER, requireApproval: "never" }) };
    const image = { image_generation: made.tools.imageGeneration({ outputFormat: "png" }) };
    return { model: (name) => made.responses(name), ways: { mcp: { tools: mcp, options }, image: { tools: image, options } } };
  },
  gemini: async () => {
    const { createGoogleGenerativeAI } = await load("@ai-sdk/google");
    const made = createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey: KEY });
    // The models make images without a tool; the simulated ones if the prompt tells them to.
    return { model: (name) => made(`models/${name}`), ways: { image: { prefix: "sim: image ", suffix: "\nsim: say Here it is." } } };
  },
};

const { model, ways } = await packages[sdk]();
const { tools = {}, options = {}, prefix = "", suffix = "" } = ways[kind];
for (const name of models) {
  const messages = [];
  for (const words of ["A red square", "A blue square"]) {
    messages.push({ role: "user", content: `${prefix}${words}${suffix}` });
    const turn = { model: name, text: "", calls: [], results: [], images: [] };
    try {
      const result = streamText({
        model: model(name),
        messages,
        tools,
        maxRetries: 0,
        maxOutputTokens: 9_000,
        providerOptions: options,
        onError: ({ error }) => {
          turn.error = `${error?.message ?? error} ${JSON.stringify(error?.cause ?? null)}`.slice(0, 2000);
        },
      });
      for await (const part of result.fullStream) {
        if (part.type === "text-delta") turn.text += part.text;
        if (part.type === "tool-call") turn.calls.push({ name: part.toolName, ran: part.providerExecuted });
        if (part.type === "tool-result") turn.results.push(part.output);
        if (part.type === "file") turn.images.push({ type: part.file.mediaType, data: part.file.base64 });
        if (part.type === "tool-error") turn.error = String(part.error);
      }
      if (!turn.error) messages.push(...(await result.response).messages);
    } catch (error) {
      turn.error ??= String(error);
    }
    console.log(JSON.stringify(turn));
    if (turn.error) break;
  }
}
