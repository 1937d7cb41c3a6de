// The head of an exchange: time, outcome, actions, facts, and notes about the recording.

import { outputLimit } from "./cards.js";
import { UNKNOWN, clock, day, dialect, h, icon, money, number, seconds, thousandths } from "./dom.js";
import { statusText } from "./row.js";

/**
 * @typedef {{onCurl: () => void, onCase: () => void, onReplay: () => void, download: string}} HeadOptions
 */

/**
 * The head of the page.
 * @param {any} exchange
 * @param {HeadOptions} options
 * @returns {HTMLElement}
 */
export function exchangeHead(exchange, options) {
  const { row } = exchange;
  const date = day(row.time);
  return h("div", { class: "head1" },
    h("div", { class: "line" },
      h("div", { class: "crumb" }, h("a", { href: "/inspector/exchanges" }, "Exchanges"), h("span", {}, "/")),
      h("h1", {}, date && h("span", { class: "opts" }, `${date} `), clock(row.time) + thousandths(row.time)),
      h("span", { class: `st ${row.level}` }, h("span", { class: "dot" }), h("span", { class: "w" }, statusText(row))),
      h("code", { class: "dim trim id", title: row.id }, row.id),
      h("span", { class: "grow" }),
      actions(row, options)),
    h("dl", { class: "facts" }, facts(exchange)));
}

function actions(row, { onCurl, onCase, onReplay, download }) {
  const needsFile = row.recorded ? {} : { disabled: true, title: "This exchange has no recording." };
  const button = (name, label, short, properties, kind = "btn") => h("button", { class: kind, type: "button", "aria-label": label, ...properties }, icon(name), h("span", { class: "lbl" }, label), h("span", { class: "sht", "aria-hidden": "true" }, short));
  const file = row.recorded
    ? h("a", { class: "btn", href: download, download: true, "aria-label": "Download recording" }, icon("download"), h("span", { class: "lbl" }, "Download recording"), h("span", { class: "sht", "aria-hidden": "true" }, "File"))
    : button("download", "Download recording", "File", needsFile);
  return h("div", { class: "line acts" },
    button("copy", "Copy as curl", "curl", { onclick: onCurl }),
    file,
    button("case", "Make a case", "Case", { onclick: onCase, ...needsFile }),
    button("replay", "Replay with today’s code", "Replay", { onclick: onReplay, ...needsFile }, "btn main"));
}

function facts(exchange) {
  const { row, conversation } = exchange;
  const about = row.estimated ? "~" : "";
  const limit = outputLimit(exchange);
  const small = (text, kind) => h("small", { class: kind }, text);
  const dialects = [...new Set([row.dialect, row.upstream_dialect])].filter(Boolean).map(dialect).join(" → ");
  return [
    fact("Model", [row.model || row.asked || UNKNOWN], { wide: true, title: row.asked && row.asked !== row.model ? `The client asked for ${row.asked}` : row.model }),
    fact("Client", [row.client || UNKNOWN]),
    fact("Dialects", [dialects || UNKNOWN]),
    fact("Upstream", [row.upstream || UNKNOWN, row.attempts > 1 ? small(` ${ordinal(row.attempts)} attempt`, "opts") : null]),
    fact("First event", [seconds(row.first_ms)]),
    fact("Duration", [seconds(row.duration_ms)]),
    fact("Input", [about, number(row.tokens_in), row.tokens_cached === null ? null : small(` ${number(row.tokens_cached)} cached`)]),
    fact("Output", [about, number(row.tokens_out), limit === null ? null : small(` limit ${number(limit)}`)]),
    fact("Cost", [money(row.cost)]),
    conversation ? fact("Conversation", [h("a", { href: `/inspector/conversations/${encodeURIComponent(conversation.id)}?turn=${Number(conversation.turn)}` }, `turn ${conversation.turn} of ${conversation.turns}`)]) : null,
  ];
}

function fact(term, value, { wide = false, title } = {}) {
  return h("div", { class: wide ? "wide" : null }, h("dt", {}, term), h("dd", { title }, value));
}

function ordinal(value) {
  const ending = { 1: "st", 2: "nd", 3: "rd" }[value % 10];
  return `${value}${value % 100 > 10 && value % 100 < 14 ? "th" : (ending ?? "th")}`;
}

/**
 * Sentences about the recording itself: torn, masked, not kept.
 * @param {any} exchange
 * @returns {HTMLElement[]}
 */
export function recordingNotices(exchange) {
  const notices = [];
  const add = (title, text) => notices.push(h("p", { class: "notice", role: "note" }, h("b", {}, title), " ", text));
  if (exchange.torn_at !== null && exchange.torn_at !== undefined) add("The recording ends early.", `The file stops at byte ${number(exchange.torn_at)}, probably because the gateway was killed. Everything before that is shown.`);
  if (exchange.more) add("The recording is large.", `The first part is shown while the rest of ${(exchange.size / 2 ** 20).toFixed(1)} MB is read.`);
  if (exchange.cut_at) add("The recording is very large.", `It is shown up to byte ${number(exchange.cut_at)}. Download it to see the rest.`);
  if (exchange.masked) add("The content is masked.", "Lengths, markers and structure are real.");
  if (!exchange.row.recorded) add("Recording is off.", "This exchange is kept in memory only. Its bytes are gone after a restart.");
  return notices;
}
