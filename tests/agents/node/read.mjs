// Reads streams with Google's SDK as if a server had sent them.
//
//     node read.mjs < STREAMS
//
// STREAMS is a JSON list of texts; the output is one too: for each stream its parts, or the message of its failure.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const installed = createRequire(join(process.env.DRAGOMAN_AGENTS, "package.json"));
const { GoogleGenAI } = await import(pathToFileURL(installed.resolve("@google/genai")).href);
const client = new GoogleGenAI({ apiKey: "x", httpOptions: { baseUrl: "http://127.0.0.1:1" } });

async function read(stream) {
  globalThis.fetch = async () =>
    new Response(stream, { headers: { "content-type": "text/event-stream" } });
  const parts = [];
  try {
    const chunks = await client.models.generateContentStream({ model: "m", contents: "x" });
    for await (const chunk of chunks) parts.push(...chunk.candidates[0].content.parts);
  } catch (error) {
    return { failure: error.message };
  }
  return { parts };
}

const done = [];
for (const stream of JSON.parse(readFileSync(0, "utf8"))) done.push(await read(stream));
console.log(JSON.stringify(done));
