// Two turns with a web search that the provider runs, on one of the AI SDK's packages, for each of several models.
//
//     node search.mjs SDK URL MODEL...
//
// Prints a line of JSON for each turn: the text, the sources that the SDK read, and a failure if there was one.

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [sdk, url, ...models] = process.argv.slice(2);
const installed = createRequire(join(process.env.DRAGOMAN_AGENTS, "package.json"));
const load = (name) => import(pathToFileURL(installed.resolve(name)).href);
const { streamText } = await load("ai");
const KEY = "dragoman";
globalThis.AI_SDK_LOG_WARNINGS = false; // lines of JSON are all that is read

/** The package has no tool for a search in Chat Completions: the field is added to what it sends. */
const searching = (address, init) => fetch(address, { ...init, body: JSON.stringify({ ...JSON.parse(init.body), web_search_options: {} }) });

const packages = {
  messages: async () => {
    const { createAnthropic } = await load("@ai-sdk/anthropic");
    const made = createAnthropic({ baseURL: `${url}/v1`, apiKey: KEY });
    return { model: made, tools: { web_search: made.tools.webSearch_20250305({ maxUses: 3 }) } };
  },
  responses: async () => {
    const { createOpenAI } = await load("@ai-sdk/openai");
    const made = createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY });
    return { model: (name) => made.responses(name), tools: { web_search: made.tools.webSearch({}) } };
  },
  chat: async () => {
    const { createOpenAI } = await load("@ai-sdk/openai");
    const made = createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY, fetch: searching });
    return { model: (name) => made.chat(name), tools: {} };
  },
  gemini: async () => {
    const { createGoogleGenerativeAI } = await load("@ai-sdk/google");
    const made = createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey: KEY });
    return { model: (name) => made(`models/${name}`), tools: { google_search: made.tools.googleSearch({}) } };
  },
};

const { model, tools } = await packages[sdk]();
for (const name of models) {
  const messages = [];
  for (const content of ["Oslo weather?", "And tomorrow?"]) {
    messages.push({ role: "user", content });
    const turn = { model: name, text: "", sources: [], calls: [] };
    try {
      const result = streamText({
        model: model(name),
        messages,
        tools,
        maxRetries: 0,
        maxOutputTokens: 9_000,
        providerOptions: { openai: { store: false } },
        onError: ({ error }) => {
          turn.error = `${error?.message ?? error} ${JSON.stringify(error?.cause ?? null)}`.slice(0, 2000);
        },
      });
      for await (const part of result.fullStream) {
        if (part.type === "text-delta") turn.text += part.text;
        if (part.type === "source") turn.sources.push({ url: part.url, title: part.title });
        if (part.type === "tool-call") turn.calls.push({ name: part.toolName, ran: part.providerExecuted });
        if (part.type === "tool-result") turn.output = part.output;
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
