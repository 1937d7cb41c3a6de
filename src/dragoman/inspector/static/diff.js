// Two texts side by side: a request before and after translation, a recorded and a replayed event.

import { count, h, number } from "./dom.js";

const SLICE = 400;

/**
 * @typedef {{kind: "same" | "changed" | "removed" | "added" | "folded", left?: string, right?: string,
 *   left_no?: number, right_no?: number, left_parts?: number[][], right_parts?: number[][], count?: number}} DiffRow
 */

/**
 * The element of a diff. `texts` are the whole texts, so that folded lines can be shown.
 * @param {DiffRow[]} rows
 * @param {{texts?: [string, string], label?: string}} [options]
 * @returns {HTMLElement}
 */
export function diffView(rows, { texts, label = "Difference" } = {}) {
  const element = h("div", { class: "diff", role: "group", "aria-label": label });
  const lines = texts?.map((text) => text.split("\n"));
  for (const [index, row] of rows.entries()) {
    if (row.kind === "folded") element.append(foldRow(rows, index, lines));
    else element.append(...cells(row));
  }
  return element;
}

function cells(row) {
  switch (row.kind) {
    case "same":
      return [cell("", row.left_no, "", row.left ?? ""), cell("ctx2", row.right_no, "", row.right ?? row.left ?? "")];
    case "removed":
      return [cell("del", row.left_no, "−", row.left, row.left_parts), voidCell()];
    case "added":
      return [voidCell(), cell("add", row.right_no, "+", row.right, row.right_parts)];
    default:
      return [cell("del", row.left_no, "−", row.left, row.left_parts), cell("add", row.right_no, "+", row.right, row.right_parts)];
  }
}

function cell(kind, line, sign, text, parts = []) {
  return h("div", { class: kind }, h("i", {}, line ?? ""), h("span", { class: "sg" }, sign), h("span", {}, bold(text ?? "", parts ?? [])));
}

function voidCell() {
  return h("div", { class: "void", "aria-hidden": "true" }, h("i"), h("span", { class: "sg" }), h("span"));
}

function bold(text, parts) {
  const nodes = [];
  let end = 0;
  for (const [from, to] of parts) {
    nodes.push(text.slice(end, from), h("b", {}, text.slice(from, to)));
    end = to;
  }
  return [...nodes, text.slice(end)];
}

/** A line that names how many equal lines are left out, with a button that shows them. */
function foldRow(rows, index, lines) {
  const fold = h("div", { class: "fold" }, `⋯ ${count(rows[index].count ?? 0, "equal line")} `);
  const hidden = lines && hiddenLines(rows, index, lines);
  if (hidden?.length) fold.append(h("button", { type: "button", onclick: () => unfold(fold, hidden) }, hidden.length > SLICE ? `Show ${number(SLICE)}` : "Show all"));
  return fold;
}

function hiddenLines(rows, index, [left, right]) {
  const before = rows[index - 1];
  const [l, r] = [rows[index].left_no ?? (before?.left_no ?? 0) + 1, rows[index].right_no ?? (before?.right_no ?? 0) + 1];
  return Array.from({ length: rows[index].count ?? 0 }, (_, step) => ({ kind: "same", left: left[l + step - 1], right: right[r + step - 1], left_no: l + step, right_no: r + step }))
    .filter((row) => row.left !== undefined || row.right !== undefined);
}

function unfold(fold, hidden) {
  fold.before(...hidden.splice(0, SLICE).flatMap(cells));
  if (hidden.length) fold.replaceChildren(`⋯ ${count(hidden.length, "equal line")} `, fold.querySelector("button"));
  else fold.remove();
}

/**
 * The rows of a diff of two values: their JSON, line by line, with the changed middle of each line in bold.
 * @param {any} left
 * @param {any} right null where one side has none
 * @returns {DiffRow[]}
 */
export function diffValues(left, right) {
  const [a, b] = [left, right].map((value) => (value === null || value === undefined ? [] : JSON.stringify(value, null, 2).split("\n")));
  return Array.from({ length: Math.max(a.length, b.length) }, (_, index) => diffLine(a[index], b[index], index + 1));
}

function diffLine(left, right, line) {
  if (left === right) return { kind: "same", left, right, left_no: line, right_no: line };
  if (right === undefined) return { kind: "removed", left, left_no: line };
  if (left === undefined) return { kind: "added", right, right_no: line };
  let start = 0;
  while (start < left.length && left[start] === right[start]) start += 1;
  let end = 0;
  while (end < Math.min(left.length, right.length) - start && left[left.length - 1 - end] === right[right.length - 1 - end]) end += 1;
  return { kind: "changed", left, right, left_no: line, right_no: line, left_parts: [[start, left.length - end]], right_parts: [[start, right.length - end]] };
}
