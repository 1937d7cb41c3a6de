// JSON text as indented, coloured lines. It works on tokens, not on a parsed value: numbers keep their digits,
// and arguments that were cut show up to the cut.

import { h } from "./dom.js";

const TOKEN = /"(?:[^"\\]|\\.)*"?|[{}[\],:]|[^\s{}[\],:"]+|\s+/gsu;
const INDENT = "  ";

/**
 * The nodes of an indented JSON text. `cut` adds a mark at the end.
 * @param {string} text
 * @param {{cut?: boolean}} [options]
 * @returns {(Node | string)[]}
 */
export function jsonNodes(text, { cut = false } = {}) {
  const nodes = [];
  let depth = 0;
  const tokens = (text.match(TOKEN) ?? []).filter((token) => token.trim());
  for (const [index, token] of tokens.entries()) {
    const next = tokens[index + 1];
    if (token === "{" || token === "[") {
      const isEmpty = next === "}" || next === "]";
      if (!isEmpty) depth += 1;
      nodes.push(token, isEmpty || next === undefined ? "" : line(depth));
    } else if (token === "}" || token === "]") {
      const wasEmpty = ["{", "["].includes(tokens[index - 1]);
      if (!wasEmpty) depth = Math.max(0, depth - 1);
      nodes.push(wasEmpty ? token : line(depth) + token);
    } else if (token === ",") nodes.push(token, next === undefined ? "" : line(depth));
    else if (token === ":") nodes.push(": ");
    else nodes.push(h("span", { class: tokenClass(token, next) }, token));
  }
  if (cut) nodes.push(h("span", { class: "cut", title: "The arguments end here" }, "…"));
  return nodes;
}

function line(depth) {
  return "\n" + INDENT.repeat(depth);
}

function tokenClass(token, next) {
  if (!token.startsWith('"')) return "d";
  return next === ":" ? "k" : "s";
}
