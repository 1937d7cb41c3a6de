// The vendors' SDKs for Node: one loop over a tool for each client, upstream and way; results as JSON.
// Called with the gateway's address and the folder that holds `node_modules`.
const { createRequire } = require("node:module");
const path = require("node:path");

const [url, folder] = process.argv.slice(2);
const find = createRequire(path.join(folder, "package.json"));
const Anthropic = find("@anthropic-ai/sdk").default;
const OpenAI = find("openai").default;

const messages = new Anthropic({ baseURL: url, apiKey: "x", maxRetries: 0 });
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "x", maxRetries: 0 });
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

async function askMessages(model, stream) {
  const tools = [{ name: "get_weather", input_schema: schema }];
  const history = [{ role: "user", content: "How is it in Ulm?" }];
  const ask = () => {
    const body = { model, max_tokens: 5000, messages: history, tools };
    return stream ? messages.messages.stream(body).finalMessage() : messages.messages.create(body);
  };
  const first = await ask();
  const calls = first.content.filter((block) => block.type === "tool_use");
  const results = calls.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: "sunny" }));
  history.push({ role: "assistant", content: first.content }, { role: "user", content: results });
  const last = await ask();
  return {
    calls: calls.map((call) => [call.name, Object.keys(call.input)]),
    text: last.content.filter((block) => block.type === "text").map((block) => block.text).join(""),
  };
}

async function askChat(model, stream) {
  const tools = [{ type: "function", function: { name: "get_weather", parameters: schema } }];
  const history = [{ role: "user", content: "How is it in Ulm?" }];
  const ask = () => {
    const body = { model, messages: history, tools };
    const made = openai.chat.completions;
    return stream ? made.stream(body).finalChatCompletion() : made.create(body);
  };
  const first = (await ask()).choices[0].message;
  history.push(first);
  for (const call of first.tool_calls) {
    history.push({ role: "tool", tool_call_id: call.id, content: "sunny" });
  }
  const last = await ask();
  return {
    calls: first.tool_calls.map((call) => [
      call.function.name,
      Object.keys(JSON.parse(call.function.arguments)),
    ]),
    text: last.choices[0].message.content,
  };
}

async function askResponses(model, stream) {
  const tools = [{ type: "function", name: "get_weather", parameters: schema, strict: false }];
  const history = [{ role: "user", content: "How is it in Ulm?" }];
  const ask = () => {
    const body = { model, input: history, tools, store: false };
    return stream ? openai.responses.stream(body).finalResponse() : openai.responses.create(body);
  };
  const first = await ask();
  const calls = first.output.filter((item) => item.type === "function_call");
  history.push(...first.output);
  for (const call of calls) {
    history.push({ type: "function_call_output", call_id: call.call_id, output: "sunny" });
  }
  const last = await ask();
  return {
    calls: calls.map((call) => [call.name, Object.keys(JSON.parse(call.arguments))]),
    text: last.output_text,
  };
}

async function main() {
  const told = {};
  const clients = { anthropic: askMessages, chat: askChat, responses: askResponses };
  for (const [client, ask] of Object.entries(clients)) {
    for (const upstream of ["anthropic", "chat", "responses"]) {
      for (const stream of [true, false]) {
        const model = `${upstream}/kimi-k2+leak-reasoning+parallel:2`;
        told[`${client} ${upstream} ${stream}`] = await ask(model, stream);
      }
    }
  }
  console.log(JSON.stringify(told));
}

main();
