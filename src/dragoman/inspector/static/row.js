// One exchange as a row of the list. Elements are recycled: `fillRow` sets everything that differs.

import { clock, day, dialect, h, money, number, plain, replace, seconds, setText, svg, thousandths } from "./dom.js";

const METER = 48; // width of the token meter
const BAR = 92; // width of the timing bar
const CHIPS = 2;
const SEVERITY = { error: 0, warn: 1, call: 2, plain: 3 };

/**
 * What all rows share: the scales of the meter and of the timing bar.
 * @typedef {{tokens: number, duration: number}} Scales
 */

/**
 * The scales that fit the rows: the largest input, and the 95th percentile of the durations.
 * @param {Object[]} rows
 * @returns {Scales}
 */
export function scalesOf(rows) {
  const durations = rows.map((row) => row.duration_ms ?? 0).sort((a, b) => a - b);
  return {
    tokens: Math.max(1, ...rows.map((row) => row.tokens_in ?? 0)),
    duration: Math.max(1, durations[Math.floor((durations.length - 1) * 0.95)] ?? 1),
  };
}

const CELLS = [
  ["c-time", "Time"],
  ["c-status", "Status"],
  ["c-client", "Client"],
  ["c-dialect", "Dialects"],
  ["c-model", "Model"],
  ["c-up", "Upstream"],
  ["c-in tok", "Input"],
  ["c-out num", "Output"],
  ["c-first num", "First"],
  ["c-dur num", "Duration"],
  ["c-timing", "Timing"],
  ["c-calls num", "Calls"],
  ["c-problems", "Problems"],
  ["c-cost num", "Cost"],
];

/** @returns {HTMLElement} the row with the names of the columns */
export function headRow() {
  const content = (name) => (name === "Input" ? [h("span", {}, name), h("span", { class: "hc" }, h("i", { class: "b-data2" }), "cached")] : name);
  return h(
    "div",
    { class: "row head", role: "row", "aria-rowindex": 1 },
    CELLS.map(([style, name]) => h("span", { class: style, role: "columnheader" }, content(name))),
  );
}

/** @returns {HTMLElement} an empty row */
export function makeRow() {
  const cell = (style, ...children) => h("span", { class: style, role: "cell" }, ...children);
  return h(
    "div",
    { class: "row", role: "row" },
    cell("c-time mono mid trim", h("a", { class: "cover" }, h("span"), h("span", { class: "dim" }))),
    cell("c-status st", h("span", { class: "dot" }), h("span", { class: "w trim" })),
    cell("c-client trim"),
    cell("c-dialect trim mid"),
    cell("c-model trim"),
    cell("c-up trim mid"),
    cell(
      "c-in tok",
      h("span"),
      svg(
        "svg",
        { width: METER, height: 6, role: "img" },
        svg("rect", { class: "f-data2", height: 6 }),
        svg("rect", { class: "f-data", height: 6 }),
      ),
    ),
    cell("c-out num"),
    cell("c-first num mid"),
    cell("c-dur num"),
    cell("c-timing", svg("svg", { width: BAR, height: 10, "aria-hidden": "true" })),
    cell("c-calls num"),
    cell("probs"),
    cell("c-cost num mid"),
    h("span", { class: "bars", "aria-hidden": "true" }, h("i"), h("i"), h("i")),
  );
}

/** @param {string} id @returns {string} the address of an exchange */
export function exchangePath(id) {
  return `/inspector/exchanges/${encodeURIComponent(id)}`;
}

/**
 * The words of the status: the code and the end of the response, as the client saw it.
 * @param {Object} row
 * @returns {string}
 */
export function statusText(row) {
  if (row.state === "streaming") return "streaming";
  return [row.status, row.ended].filter(Boolean).join(" ");
}

/**
 * The problems of an exchange as chips, the worst first.
 * @param {Object[]} problems
 * @param {number} [most] further ones are counted in `+N`
 * @returns {HTMLElement[]}
 */
export function problemChips(problems, most = Infinity) {
  const sorted = [...problems].sort((a, b) => (SEVERITY[a.level] ?? 3) - (SEVERITY[b.level] ?? 3));
  const chips = sorted.slice(0, most).map(({ label, level }) => h("span", { class: level === "plain" ? "chip" : `chip ${level}`, title: plain(label) }, label));
  const rest = sorted.slice(most);
  if (rest.length) chips.push(h("span", { class: "chip", title: rest.map(({ label }) => label).join(", ") }, `+${rest.length}`));
  return chips;
}

function textWithTitle(element, text) {
  setText(element, text);
  element.title = plain(text);
}

function fillMeter(picture, row, scales) {
  const scale = (tokens) => Math.min(METER, (tokens / scales.tokens) * METER);
  const all = scale(row.tokens_in ?? 0);
  const cached = scale(row.tokens_cached ?? 0);
  const [old, fresh] = picture.children;
  old.setAttribute("width", cached);
  fresh.setAttribute("x", cached);
  fresh.setAttribute("width", Math.max(0, all - cached));
  picture.setAttribute("aria-label", `${number(row.tokens_cached ?? 0)} of ${number(row.tokens_in)} tokens from cache`);
}

/**
 * The shapes of the timing bar: thin while it waits, thick while it streams, amber where it stalls, red if it failed.
 * @param {Object} row
 * @param {Scales} scales
 * @returns {SVGElement[]}
 */
function timingShapes(row, scales) {
  const scale = (ms) => Math.min(BAR, (ms / scales.duration) * BAR);
  const end = row.duration_ms ?? 0;
  const begin = row.first_ms ?? (row.level === "failed" ? 0 : end);
  const shapes = [
    svg("rect", { class: "f-data2", y: 3, height: 4, width: scale(begin) }),
    svg("rect", { class: row.level === "failed" ? "f-error" : "f-data", x: scale(begin), y: 1, height: 8, width: end ? Math.max(1.5, scale(end) - scale(begin)) : 0 }),
    ...(row.stalls ?? []).map(([from, to]) => svg("rect", { class: "f-warn", x: scale(from), y: 1, height: 8, width: Math.max(1, scale(to) - scale(from)) })),
  ];
  // A bar that is longer than the scale ends in a notch.
  if (end > scales.duration) shapes.push(svg("path", { class: "notch", d: `M${BAR - 6} 10 L${BAR - 3} 0 M${BAR - 3} 10 L${BAR} 0` }));
  return shapes;
}

/**
 * Shows an exchange in a row.
 * @param {HTMLElement} element from `makeRow`
 * @param {Object|undefined} row undefined while it is loaded
 * @param {{index: number, selected: boolean, scales: Scales}} options
 */
export function fillRow(element, row, { index, selected, scales }) {
  element.setAttribute("aria-rowindex", index + 2);
  element.setAttribute("aria-selected", String(selected));
  element.classList.toggle("loading", !row);
  const cells = element.children;
  const link = cells[0].firstChild;
  if (!row) {
    link.removeAttribute("href");
    return;
  }
  link.href = exchangePath(row.id);
  link.dataset.id = row.id;
  const date = day(row.time);
  setText(link.firstChild, date ? `${date} ${clock(row.time).slice(0, 5)}` : clock(row.time));
  setText(link.lastChild, date ? "" : thousandths(row.time));
  cells[1].className = `c-status st ${row.level}`;
  cells[1].firstChild.classList.toggle("pulse", row.state === "streaming");
  textWithTitle(cells[1].lastChild, statusText(row));
  textWithTitle(cells[2], row.client || "–");
  textWithTitle(cells[3], [row.dialect, row.upstream_dialect].filter(Boolean).map(dialect).join(" → "));
  textWithTitle(cells[4], row.model || row.asked || "–");
  textWithTitle(cells[5], row.upstream || "–");
  setText(cells[6].firstChild, (row.estimated ? "~" : "") + number(row.tokens_in));
  fillMeter(cells[6].lastChild, row, scales);
  setText(cells[7], number(row.tokens_out));
  setText(cells[8], seconds(row.first_ms));
  setText(cells[9], seconds(row.duration_ms));
  replace(cells[10].firstChild, timingShapes(row, scales));
  setText(cells[11], number(row.calls));
  cells[11].classList.toggle("dim", !row.calls);
  replace(cells[12], problemChips(row.problems, CHIPS));
  setText(cells[13], money(row.cost));
}
