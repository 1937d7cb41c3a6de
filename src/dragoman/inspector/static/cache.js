// The prompt cache of a conversation: the picture with one bar per turn, and the marker where the cache broke.

import { count, h, icon, money, number, plain, replace, svg } from "./dom.js";

const HEIGHT = 112;
const BASE = 92; // the line below the bars
const LEFT = 32; // space for the scale
const LABEL = 56; // space that a label needs
const FAR = 30; // equal characters before the difference that stay on a narrow screen

// Round numbers that divide the scale into two or three parts.
function scaleSteps(most) {
  const size = 10 ** Math.floor(Math.log10(Math.max(most, 10)));
  const step = [0.2, 0.5, 1, 2, 5].map((part) => part * size).find((value) => most / value <= 3.5) ?? size * 5;
  return Array.from({ length: Math.floor(most / step) }, (_, index) => step * (index + 1));
}

function short(tokens) {
  return tokens >= 1000 ? `${number(tokens / 1000)}k` : number(tokens);
}

function bar(turn, x, width, height) {
  const lost = turn.lost ?? 0;
  const cached = turn.tokens_cached ?? 0;
  const fresh = Math.max(0, (turn.tokens_in ?? 0) - cached - lost);
  let y = BASE;
  return [
    ["f-data2", cached],
    ["f-warn", lost],
    ["f-data", fresh],
  ].map(([role, tokens]) => {
    const tall = height(tokens);
    y -= tall;
    return svg("rect", { class: role, x, y, width, height: tall });
  });
}

/**
 * Draws the picture into an element; draw it again when the element's width changed.
 * @param {HTMLElement} root
 * @param {Object[]} turns
 * @param {function(number): void} onturn called with the number of the turn that was clicked
 */
export function drawCache(root, turns, onturn) {
  const width = Math.max(200, root.clientWidth - 24);
  const most = Math.max(1, ...turns.map((turn) => turn.tokens_in ?? 0));
  const height = (tokens) => (tokens / (most * 1.12)) * (BASE - 10);
  const step = (width - LEFT) / turns.length;
  const every = Math.max(1, Math.ceil((turns.length * 20) / (width - LEFT)));
  let lastLabel = -Infinity;
  const bars = turns.map((turn, index) => {
    const x = LEFT + index * step;
    const middle = x + step / 2;
    const labelled = turn.lost > 0 && middle - lastLabel > LABEL;
    if (labelled) lastLabel = middle;
    const text = `Turn ${turn.turn}: ${number(turn.tokens_in)} in, ${number(turn.tokens_cached)} from cache` + (turn.lost ? `, ${number(turn.lost)} read again` : "");
    return svg(
      "g",
      { class: "bar-of-turn", onclick: () => onturn(turn.turn) },
      svg("title", {}, text),
      svg("rect", { class: "hit", x, y: 0, width: step, height: HEIGHT }),
      bar(turn, x + step * 0.2, step * 0.6, height),
      labelled && svg("text", { class: "t-warn", x: middle, y: BASE - height(turn.tokens_in ?? 0) - 5, "text-anchor": "middle", "font-weight": 600 }, `−${number(turn.lost)}`),
      index % every === 0 && svg("text", { x: middle, y: HEIGHT - 4, "text-anchor": "middle" }, turn.turn),
    );
  });
  const lines = scaleSteps(most).map((tokens) => [
    svg("line", { class: "l-grid", x1: LEFT, x2: width, y1: BASE - height(tokens), y2: BASE - height(tokens) }),
    svg("text", { x: 0, y: BASE - height(tokens) + 4 }, short(tokens)),
  ]);
  const losses = turns.filter((turn) => turn.lost > 0).map((turn) => `Turn ${turn.turn} lost ${number(turn.lost)} cached tokens.`);
  replace(
    root,
    svg(
      "svg",
      { width, height: HEIGHT, role: "img", "aria-label": ["Input tokens by turn.", ...losses].join(" ") },
      lines,
      svg("line", { class: "l-base", x1: LEFT, x2: width, y1: BASE + 0.5, y2: BASE + 0.5 }),
      bars,
    ),
  );
}

// The end of the difference: where the rest of both texts is equal again.
function endsOfDifference(before, after, at) {
  let equal = 0;
  const most = Math.min(before.text.length - at[0], after.text.length - at[1]);
  while (equal < most && before.text.at(-1 - equal) === after.text.at(-1 - equal)) equal += 1;
  return [before.text.length - equal, after.text.length - equal];
}

const oneLine = (text) => text.replaceAll("\n", "\\n").replaceAll("\t", "\\t");

function differing({ text }, at, end) {
  const first = String.fromCodePoint(text.codePointAt(at) ?? 0x20);
  const near = Math.max(0, at - FAR);
  return h(
    "dd",
    {},
    h("span", { class: "same far" }, oneLine(text.slice(0, near))),
    h("span", { class: "same" }, oneLine(text.slice(near, at))),
    at < text.length ? h("span", { class: "first" }, oneLine(first)) : h("span", { class: "first", title: "The text ends here" }, "∎"),
    h("span", { class: "rest" }, oneLine(text.slice(at + first.length, Math.max(end, at + first.length)))),
    h("span", { class: "same" }, oneLine(text.slice(Math.max(end, at + first.length)))),
  );
}

/**
 * The marker before a turn whose request differs from the turn before.
 * @param {Object} turn with a `cache_break`
 * @param {number} before number of the turn before
 * @returns {HTMLElement}
 */
export function cacheBreak(turn, before) {
  const { byte, path, before: old, after: now, tokens, cost, cause, fix, doc } = turn.cache_break;
  const ends = endsOfDifference(old, now, [old.at, now.at]);
  return h(
    "section",
    { class: "brk", "aria-label": plain(`Prompt cache broke before turn ${turn.turn}`) },
    h(
      "div",
      { class: "t" },
      icon("warning"),
      h("span", {}, `The prompt cache broke here: ${count(tokens, "token was", "tokens were")} read again`),
      cost ? h("span", { class: "r" }, `+${money(cost)}`) : null,
    ),
    h(
      "div",
      { class: "x" },
      h("p", {}, `Turn ${turn.turn} differs from turn ${before} at byte `, h("b", {}, number(byte)), " of ", h("code", {}, path), ". A prompt cache only covers the part before the first difference."),
      h("dl", { class: "by" }, h("dt", {}, `Turn ${before}`), differing(old, old.at, ends[0]), h("dt", {}, `Turn ${turn.turn}`), differing(now, now.at, ends[1])),
      h("p", {}, [cause, fix].filter(Boolean).join(" "), /^https:\/\//.test(doc) ? [" ", h("a", { href: doc, rel: "noreferrer" }, "How prompt caches work")] : null),
    ),
  );
}
