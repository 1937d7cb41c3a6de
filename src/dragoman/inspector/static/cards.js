// Tool-call cards, warnings and attempts of one exchange.

import { h, icon, number, seconds } from "./dom.js";
import { jsonNodes } from "./json.js";

const WARNING_COLOURS = { warn: "c-warn", error: "c-error" };

/**
 * The cards of all tool calls.
 * @param {any} exchange
 * @param {{onCall: (call: number) => void, onMarker: (from: number, to: number) => void}} options
 * @returns {HTMLElement[]} one element for each call, in order
 */
export function callCards(exchange, { onCall, onMarker }) {
  return exchange.calls.map((call, index) => {
    const name = h("button", { type: "button", class: "name", title: "Select this call", onclick: () => onCall(index) }, call.name || "(no name)");
    const title = h("div", { class: "title" }, name, callChips(call), h("span", { class: "grow" }), h("span", { class: "dim" }, callTime(call)));
    return h("article", { class: "card", "aria-label": `Tool call ${index + 1}: ${call.name}`, data: { call: index } }, title, callIds(call), callBody(call, { exchange }), markerRows(call, onMarker));
  });
}

/**
 * The cards of tools that the vendor ran. Addresses are text: a recording must not make a viewer's browser go anywhere.
 * @param {any} exchange
 * @param {{onBlock: (block: number) => void}} options
 * @returns {HTMLElement[]}
 */
export function vendorCards(exchange, { onBlock }) {
  return exchange.vendor_calls.map((call) => {
    const name = h("button", { type: "button", class: "name", title: "Select this call", onclick: () => onBlock(call.block) }, call.does);
    const title = h("div", { class: "title" }, name, chip("call", "run by the vendor"), call.state === "complete" ? null : chip("error", call.state));
    return h("article", { class: "card", "aria-label": `Run by the vendor: ${call.does}` }, title, vendorFacts(call), call.arguments ? h("pre", { class: "json" }, jsonNodes(call.arguments)) : null, call.output ? h("pre", { class: "json" }, call.output) : null, sourceRows(call));
  });
}

function vendorFacts(call) {
  const rows = [];
  const add = (term, value) => rows.push(h("dt", {}, term), h("dd", {}, value));
  for (const query of call.queries) add("Query", query);
  if (call.error) add("Failed", call.error);
  if (call.upstream_id) add("Upstream id", h("code", {}, call.upstream_id));
  const found = call.sources.length + call.more_sources;
  if (found) add("Sources", number(found));
  return h("dl", { class: "kv" }, rows);
}

function sourceRows(call) {
  if (!call.sources.length) return null;
  const rows = call.sources.map((source) => h("li", {}, h("span", { class: "trim", title: source.title }, source.title), h("code", { class: "trim", title: source.url }, source.url)));
  if (call.more_sources) rows.push(h("li", { class: "dim" }, `and ${number(call.more_sources)} more`));
  return h("ol", { class: "sources", "aria-label": "Sources" }, rows);
}

/**
 * State, repair and repetition of a call as chips.
 * @param {any} call
 */
export function callChips(call) {
  const chips = [];
  if (call.state === "truncated") chips.push(chip("error", "truncated, not run"));
  else if (call.state !== "complete") chips.push(chip("error", call.state));
  else if (!call.repaired) chips.push(chip("call", "complete"));
  if (call.repaired) chips.push(chip("call", "repaired"));
  if (call.repeated) chips.push(chip("warn", "repeated"));
  return chips;
}

function chip(kind, word) {
  return h("span", { class: `chip ${kind}` }, word);
}

function callTime(call) {
  if (call.from_ms === null || call.from_ms === undefined) return "";
  return `${(call.from_ms / 1000).toFixed(2)}–${seconds(call.to_ms ?? call.from_ms)}`;
}

function callIds(call) {
  const rows = [];
  const add = (term, ...value) => rows.push(h("dt", {}, term), h("dd", {}, value));
  if (call.upstream_id) add("Upstream id", h("code", {}, call.upstream_id));
  if (call.client_id) add("Client id", h("code", {}, call.client_id));
  if (call.found) add("Found in", `${call.found.channel}, family `, h("code", {}, call.found.family));
  return rows.length ? h("dl", { class: "kv" }, rows) : null;
}

/**
 * The arguments of a call, and whether they match the schema.
 * @param {any} call
 * @param {{exchange?: any, matches?: string}} [options]
 */
export function callBody(call, { exchange, matches = "Matches the schema that the client declared" } = {}) {
  const isCut = call.state !== "complete";
  const json = h("pre", { class: "json" }, call.arguments || !isCut ? jsonNodes(call.arguments || "{}", { cut: isCut || call.cut }) : h("span", { class: "dim" }, "No arguments arrived."));
  return [json, isCut ? cutReason(call, exchange) : schemaResult(call.schema, matches)];
}

function cutReason(call, exchange) {
  const limit = exchange && outputLimit(exchange);
  const ended = exchange?.row.ended;
  const cause = call.state === "truncated" && limit ? `The output limit of ${number(limit)} tokens cut the arguments.` : "The arguments end before they are complete.";
  const effect = ended ? [" The client sees ", h("code", {}, ended), " and must not run this call."] : " The client must not run this call.";
  return checkLine("c-error", "close", [cause, effect]);
}

function schemaResult(schema, matches) {
  if (!schema || schema.ok === null || schema.ok === undefined) return h("p", { class: "check dim" }, h("span", {}, "No schema was declared"));
  if (schema.ok) return checkLine("ch-call", "check", matches);
  return schema.problems.map((problem) => checkLine("c-error", "close", prose(problem)));
}

function checkLine(colour, picture, content) {
  return h("p", { class: `check ${colour}` }, icon(picture, 12), h("span", {}, content));
}

function markerRows(call, onMarker) {
  if (!call.markers?.length) return null;
  return h("ul", { class: "found", "aria-label": "Markers in the upstream's bytes" }, call.markers.map((marker) => {
    const bytes = `${number(marker.from)}–${number(marker.to)}`;
    return h("li", {}, h("button", { type: "button", title: `Show bytes ${bytes}`, onclick: () => onMarker(marker.from, marker.to) }, h("code", {}, marker.text), h("span", {}, bytes)));
  }));
}

/**
 * The output limit that the client asked for, or null.
 * @param {any} exchange
 * @returns {number | null}
 */
export function outputLimit(exchange) {
  const found = /^ {2}"(?:max_tokens|max_completion_tokens|max_output_tokens)": (\d+)/m.exec(exchange.request?.received?.text ?? "");
  return found ? Number(found[1]) : null;
}

/**
 * One row for each warning.
 * @param {any[]} warnings
 */
export function warningRows(warnings) {
  return warnings.map((warning) => {
    const link = /^https:\/\//.test(warning.doc) ? h("a", { href: warning.doc, rel: "noreferrer" }, warning.code) : h("code", {}, warning.code);
    const path = warning.path ? [" Path ", h("code", {}, warning.path), "."] : null;
    return h("div", { class: "warnrow", data: { level: warning.level } }, h("span", { class: WARNING_COLOURS[warning.level] ?? "dim" }, icon("warning")), h("div", {}, h("b", {}, prose(warning.title)), h("p", {}, prose(warning.text), path, " ", link)));
  });
}

/**
 * A sentence whose `code` is between backticks.
 * @param {string} text
 * @returns {(Node | string)[]}
 */
export function prose(text) {
  return text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));
}

/**
 * One row for each attempt.
 * @param {any[]} attempts
 */
export function attemptRows(attempts) {
  return attempts.map((attempt, index) => {
    const failed = !attempt.answered;
    const words = [attempt.status || "", failed ? "failed" : "answered"].filter(Boolean).join(" ");
    const about = [];
    if (attempt.reason) about.push(prose(attempt.reason));
    if (attempt.profile) about.push([about.length ? " " : "", "Profile ", h("code", {}, attempt.profile), "."]);
    const upstream = attempt.model ? `${attempt.upstream} · ${attempt.model}` : attempt.upstream;
    return h("div", { class: "att" },
      h("span", { class: "dim" }, index + 1),
      h("span", { class: "trim", title: upstream }, attempt.upstream),
      h("span", { class: `st${failed ? " error" : ""}` }, h("span", { class: "dot" }), h("span", { class: "w" }, words)),
      h("span", { class: "mid w" }, about),
      h("span", { class: "dim" }, attempt.end === null || attempt.end === undefined ? "" : seconds(attempt.end - attempt.at)));
  });
}
