// Builds elements, and formats numbers and times. Recorded content enters the page only here, as text:
// no markup is ever parsed, and characters that a reader cannot see are shown as escapes.

// Control characters (without tab and line feed), bidirectional marks, zero-width and other invisible
// characters, and halves of surrogate pairs.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]|\p{Surrogate}/u;
const INVISIBLE_ALL = new RegExp(INVISIBLE.source, "gu");

/**
 * The escape of an invisible character, such as `\x1b` or `\u202e`.
 * @param {string} character
 * @returns {string}
 */
function escaped(character) {
  const code = character.codePointAt(0);
  if (code < 0x100) return "\\x" + code.toString(16).padStart(2, "0");
  if (code < 0x10000) return "\\u" + code.toString(16).padStart(4, "0");
  return "\\u{" + code.toString(16) + "}";
}

/**
 * The text with invisible characters as escapes: for attributes such as `title`.
 * @param {string} text
 * @returns {string}
 */
export function plain(text) {
  return INVISIBLE.test(text) ? text.replace(INVISIBLE_ALL, escaped) : text;
}

/**
 * The nodes that show a text: text nodes, and a `<span class="esc">` for each invisible character.
 * @param {string} text
 * @returns {(Text|HTMLElement)[]}
 */
export function visible(text) {
  if (!INVISIBLE.test(text)) return [document.createTextNode(text)];
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(INVISIBLE_ALL)) {
    if (match.index > end) nodes.push(document.createTextNode(text.slice(end, match.index)));
    const span = document.createElement("span");
    span.className = "esc";
    span.textContent = escaped(match[0]);
    nodes.push(span);
    end = match.index + match[0].length;
  }
  if (end < text.length) nodes.push(document.createTextNode(text.slice(end)));
  return nodes;
}

/**
 * Replaces the content of an element by a text.
 * @param {Element} element
 * @param {string|number} value
 */
export function setText(element, value) {
  const text = String(value);
  if (INVISIBLE.test(text)) element.replaceChildren(...visible(text));
  else element.textContent = text;
}

/**
 * Replaces the content of an element. Strings become text.
 * @param {Element} element
 * @param {...*} children nodes, strings, numbers, nested arrays; null, undefined and false are left out
 */
export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else if (child instanceof Node) element.append(child);
    else element.append(...visible(String(child)));
  }
}

// A link leads to a view of this page, to a place in it, or to the documentation.
const SAFE_LINK = /^(\/(?!\/)|#|https:\/\/)/;
const REFUSED = new Set(["style", "innerHTML", "outerHTML", "srcdoc", "src"]);

function setProperties(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (REFUSED.has(name)) throw new TypeError(`${name} is not set on elements`);
    if (name === "href" && !SAFE_LINK.test(value)) throw new TypeError("the link leads elsewhere");
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : plain(String(value)));
  }
}

/**
 * Makes an HTML element.
 * @param {string} tag
 * @param {Object<string, *>} [properties] attributes; `onclick: function` adds a listener, `data: {}` fills
 *   the dataset, `true` sets an empty attribute, null, undefined and false set none
 * @param {...*} children nodes, strings, numbers, nested arrays; null, undefined and false are left out
 * @returns {HTMLElement}
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  setProperties(element, properties ?? {});
  append(element, children);
  return element;
}

/**
 * Makes an SVG element; the same parameters as `h`.
 * @param {string} tag
 * @param {Object<string, *>} [properties]
 * @param {...*} children
 * @returns {SVGElement}
 */
export function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setProperties(element, properties ?? {});
  append(element, children);
  return element;
}

const ICONS = {
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM11 11l3.2 3.2",
  warning: "M8 2.5 14.5 13.5H1.5ZM8 6.5v3.2M8 11.8v.01",
  download: "M8 2v8M4.5 7 8 10.5 11.5 7M2.5 13.5h11",
  chevron: "M4 6.5 8 10.5 12 6.5",
  check: "M3 8.5 6.5 12 13 4.5",
  close: "M4 4l8 8M12 4l-8 8",
  copy: "M5.5 5.5V2.5h8v8h-3M2.5 5.5h8v8h-8Z",
  replay: "M13 8A5 5 0 1 1 11.3 4.3M13.5 2v3.5H10",
  open: "M2.5 4.5v8h11V6H8L6.5 4.5z",
  case: "M4 2.5h5.5L12.5 5.5v8h-8.5ZM6.5 8.5l1.5 1.5 2.5-3",
};

/**
 * A small picture that assistive technology ignores: the words are beside it.
 * @param {keyof typeof ICONS} name
 * @param {number} [size]
 * @returns {SVGElement}
 */
export function icon(name, size = 14) {
  return svg(
    "svg",
    { width: size, height: size, viewBox: "0 0 16 16", fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" },
    svg("path", { d: ICONS[name] }),
  );
}

/** What is not known. Zero is written `0`. */
export const UNKNOWN = "–";

const NUMBER = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** @param {number|null|undefined} value @returns {string} such as `18,432` */
export function number(value) {
  return value === null || value === undefined ? UNKNOWN : NUMBER.format(value);
}

/** @param {number} value @param {string} noun @param {string} [plural] @returns {string} such as `9 turns` */
export function count(value, noun, plural = noun + "s") {
  return `${number(value)} ${value === 1 ? noun : plural}`;
}

/** @param {number|null|undefined} ms @returns {string} such as `9.46 s`; two decimals, so that a column lines up, and `4 ms` where they would be zero */
export function seconds(ms) {
  if (ms === null || ms === undefined) return UNKNOWN;
  return ms > 0 && ms < 10 ? `${Math.max(1, Math.round(ms))} ms` : `${(ms / 1000).toFixed(2)} s`;
}

/** @param {number|null|undefined} ms @returns {string} such as `212 ms`, `4.2 s`, `3 min 02 s` */
export function duration(ms) {
  if (ms === null || ms === undefined) return UNKNOWN;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const whole = Math.round(ms / 1000);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

/** @param {number|null|undefined} share between 0 and 1 @param {number} [decimals] @returns {string} such as `95 %` */
export function percent(share, decimals = 0) {
  return share === null || share === undefined ? UNKNOWN : `${(share * 100).toFixed(decimals)} %`;
}

/** @param {number|null|undefined} dollars @returns {string} such as `$0.0158`, `$0`, `$12.40` */
export function money(dollars) {
  if (dollars === null || dollars === undefined) return UNKNOWN;
  if (dollars === 0) return "$0";
  return "$" + dollars.toFixed(dollars >= 1 ? 2 : 4);
}

const two = (value) => String(value).padStart(2, "0");

/** @param {number} epoch seconds @returns {string} the local time, such as `09:48:21` */
export function clock(epoch) {
  const date = new Date(epoch * 1000);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** @param {number} epoch seconds @returns {string} the thousandths, such as `.907` */
export function thousandths(epoch) {
  return "." + String(new Date(epoch * 1000).getMilliseconds()).padStart(3, "0");
}

/** @param {number} epoch seconds @returns {string} the date, such as `Nov 16`; empty if it is today */
export function day(epoch) {
  const date = new Date(epoch * 1000);
  const today = new Date();
  if (date.toDateString() === today.toDateString()) return "";
  const year = date.getFullYear() === today.getFullYear() ? "" : ` ${date.getFullYear()}`;
  return date.toLocaleDateString("en-US", { month: "short", day: "numeric" }) + year;
}

/** @param {number} epoch seconds @returns {string} the local time, with the date when it is not today */
export function moment(epoch) {
  return [day(epoch), clock(epoch)].filter(Boolean).join(" ");
}

const DIALECTS = { chat: "Chat", anthropic: "Messages", responses: "Responses", gemini: "Gemini" };

/** @param {string} name @returns {string} the dialect's name for readers */
export function dialect(name) {
  return DIALECTS[name] ?? name;
}
