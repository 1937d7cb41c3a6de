// One turn of a conversation: what was added, what the model answered, each call beside its result.

import { cacheBreak } from "./cache.js";
import { clock, count, day, duration, h, number, percent } from "./dom.js";
import { exchangePath, problemChips } from "./row.js";

const LONG_LINES = 14;
const LONG_TEXT = 900;

// A long text is shortened until the reader asks for all of it.
function excerpt(tag, properties, text, cut) {
  const note = cut ? h("span", { class: "dim" }, " … The exchange has the rest.") : null;
  const lines = text.split("\n");
  if (lines.length <= LONG_LINES && text.length <= LONG_TEXT) return h(tag, properties, text, note);
  const part = lines.slice(0, LONG_LINES).join("\n").slice(0, LONG_TEXT);
  const element = h(
    tag,
    properties,
    part,
    "… ",
    h("button", { class: "more-text", type: "button", onclick: () => element.replaceWith(h(tag, properties, text, note)) }, `Show all ${count(lines.length, "line")}`),
  );
  return element;
}

// Arguments that are an object are shown as lines of names and values; everything else as it is.
function argumentLines(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return text;
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) return text;
  const line = (part) => (typeof part === "string" ? part : JSON.stringify(part));
  const entries = Object.entries(value);
  if (entries.length === 1) return line(entries[0][1]);
  return entries.map(([name, part]) => `${name}: ${line(part)}`).join("\n");
}

function callChips(call) {
  const chips = [];
  if (call.state === "truncated") chips.push(h("span", { class: "chip error" }, "truncated, not run"));
  else if (call.state === "incomplete") chips.push(h("span", { class: "chip error" }, "incomplete"));
  if (call.repaired) chips.push(h("span", { class: "chip call" }, "repaired"));
  if (call.repeated) chips.push(h("span", { class: "chip warn" }, `repeated, ${call.repeated}`));
  return chips;
}

function resultOf(call) {
  const { result } = call;
  if (!result) {
    const reason = call.state === "complete" ? "The next request does not hold it." : "The client did not run it.";
    return [h("div", { class: "who" }, "No result"), h("pre", { class: "dim" }, reason)];
  }
  const time = result.ms === null || result.ms === undefined ? null : h("span", { class: "r" }, duration(result.ms));
  return [
    h("div", { class: result.is_error ? "who c-error" : "who" }, result.is_error ? "Result: error" : "Result", time),
    excerpt("pre", { class: result.is_error ? "c-error" : "" }, result.text, result.cut),
  ];
}

function pair(call) {
  return h(
    "div",
    { class: "pair" },
    h("div", {}, h("div", { class: "nm" }, h("span", { class: "trim", title: call.name }, call.name), callChips(call)), excerpt("pre", { class: "mid" }, argumentLines(call.arguments), call.cut)),
    h("div", {}, resultOf(call)),
  );
}

function added({ results = 0, messages = 0, tokens }) {
  const parts = [];
  if (results) parts.push(count(results, "result"));
  if (messages) parts.push(count(messages, "message"));
  if (tokens !== null && tokens !== undefined) parts.push(count(tokens, "token"));
  return parts.length ? `Added: ${parts.join(", ")}` : "Added: nothing";
}

function numbers(turn) {
  const share = turn.tokens_in ? percent((turn.tokens_cached ?? 0) / turn.tokens_in) : null;
  const input = `${number(turn.tokens_in)} in` + (share ? ` · ${share} cached` : "");
  return h("span", { class: "r" }, h("span", { class: turn.lost ? "c-warn" : "" }, input), ` · ${number(turn.tokens_out)} out · ${duration(turn.duration_ms)}`);
}

function thought(turn) {
  if (!turn.reasoning && !turn.reasoning_ms) return null;
  const title = turn.reasoning_ms ? `Thought for ${duration(turn.reasoning_ms)}` : "Thought";
  if (!turn.reasoning) return h("p", { class: "think" }, title);
  return h("details", { class: "think" }, h("summary", {}, title), h("p", { class: "said" }, turn.reasoning));
}

function sideOf(side) {
  const path = side.conversation ? `/inspector/conversations/${encodeURIComponent(side.conversation)}` : exchangePath(side.exchange);
  const agent = side.kind === "sub-agent";
  const facts = [agent && count(side.turns, "turn"), agent && count(side.calls, "call"), `${number(side.tokens_in)} in`, !agent && `${number(side.tokens_out)} out`, duration(side.duration_ms)];
  return h(
    "div",
    { class: "sub" },
    h("b", {}, agent ? "Sub-agent" : "Side request"),
    side.title && h("span", { class: "m" }, side.title),
    h("span", { class: "m" }, facts.filter(Boolean).join(" · ")),
    h("a", { href: path }, side.conversation ? "Open run" : "Open exchange"),
  );
}

/** @param {Object} turn @returns {boolean} whether there is something in it that should be looked at */
export function hasProblem(turn) {
  const bad = turn.problems.some(({ level }) => level === "warn" || level === "error");
  return bad || Boolean(turn.lost || turn.cache_break || turn.note) || turn.calls.some((call) => call.repeated || call.state !== "complete" || call.result?.is_error);
}

/**
 * @param {Object} turn
 * @param {number} before number of the turn before
 * @returns {HTMLElement}
 */
export function turnElement(turn, before) {
  const shown = turn.problems.filter(({ kind }) => kind !== "repaired");
  return h(
    "li",
    { class: "turn", id: `turn-${turn.turn}`, tabindex: "-1", "aria-label": `Turn ${turn.turn}` },
    turn.cache_break && [h("div", { class: "g" }), cacheBreak(turn, before), h("div", { class: "side" })],
    h("div", { class: "g" }, h("a", { href: exchangePath(turn.exchange), title: "Open this exchange" }, `Turn ${turn.turn}`), h("span", {}, [day(turn.time), clock(turn.time)].filter(Boolean).join(" "))),
    h(
      "article",
      { class: "panel body" },
      h(
        "div",
        { class: "seg2" },
        h("div", { class: "who" }, h("span", {}, added(turn.added)), problemChips(shown), numbers(turn)),
        thought(turn),
        turn.text && excerpt("p", { class: "said" }, turn.text, turn.cut),
        turn.note && h("p", { class: "mid" }, turn.note),
      ),
      turn.calls.map(pair),
    ),
    h("div", { class: "side" }, turn.side.map(sideOf)),
  );
}

/**
 * Several turns without a problem, as one line.
 * @param {Object[]} turns
 * @param {function(): void} onopen
 * @returns {HTMLElement}
 */
export function foldedTurns(turns, onopen) {
  const sum = (key) => turns.reduce((all, turn) => all + (turn[key] ?? 0), 0);
  const calls = turns.reduce((all, turn) => all + turn.calls.length, 0);
  const [first, last] = [turns[0], turns.at(-1)];
  const took = (last.time - first.time) * 1000 + (last.duration_ms ?? 0);
  const input = sum("tokens_in");
  const facts = [duration(took), count(calls, "call"), `${number(input)} in`, input && `${percent(sum("tokens_cached") / input)} cached`, "no problems"];
  return h(
    "li",
    { class: "turn", id: `turn-${first.turn}` },
    h("div", { class: "g" }),
    h("button", { class: "foldturn", type: "button", "aria-expanded": "false", onclick: onopen }, h("b", {}, `Turns ${first.turn}–${last.turn}`), h("span", {}, facts.filter(Boolean).join(" · "))),
    h("div", { class: "side" }),
  );
}
