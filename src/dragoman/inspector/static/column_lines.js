// The lines of a linked column. Every line is 24 px: a row, a note about a pause, a folded run of similar rows,
// or, in the raw view, a piece of a row's bytes that fits the width.

import { duration, number } from "./dom.js";

const FOLD_OVER = 12;
const SHOWN_OF_RUN = 3;

/**
 * @typedef {{row: number, from?: number, to?: number, first: boolean}
 *   | {gap: string} | {fold: number, last: number, label: string}} Line
 */

/**
 * The lines of the payload view.
 * @param {any[]} rows
 * @param {(row: number) => number | null} blockOf
 * @param {{blocks: any[], stalls: number[][], open: Set<number>}} options `open` holds the first rows of unfolded runs
 * @returns {Line[]}
 */
export function payloadLines(rows, blockOf, { blocks, stalls, open }) {
  const lines = [];
  for (let row = 0; row < rows.length; ) {
    const end = endOfRun(rows, row, blockOf);
    const folds = end - row > FOLD_OVER && !open.has(row);
    const shown = folds ? row + SHOWN_OF_RUN : end;
    for (let index = row; index < shown; index += 1) {
      const pause = pauseBefore(rows, index, stalls);
      if (pause) lines.push({ gap: pause });
      lines.push({ row: index, first: true });
    }
    if (folds) lines.push({ fold: shown, last: end - 1, label: foldLabel(end - shown, blocks[blockOf(row)], rows[row].kind), run: row });
    row = end;
  }
  return lines;
}

function endOfRun(rows, start, blockOf) {
  const block = blockOf(start);
  let end = start + 1;
  while (end < rows.length && rows[end].kind === rows[start].kind && blockOf(end) === block) end += 1;
  return end;
}

function foldLabel(count, block, kind) {
  const what = block ? `of the same ${block.kind}` : kind;
  return `⋯ ${number(count)} more ${what}`;
}

function pauseBefore(rows, row, stalls) {
  if (row === 0 || rows[row].at === undefined) return "";
  const [before, at] = [rows[row - 1].at, rows[row].at];
  const stall = stalls.find(([from, to]) => before <= from + 1 && at >= to - 1);
  return stall ? `${duration(stall[1] - stall[0])} without bytes` : "";
}

/**
 * The lines of the raw view: `width` bytes on each line, every byte of the side on one line.
 * @param {any[]} rows
 * @param {number} width
 * @returns {Line[]}
 */
export function rawLines(rows, width) {
  const lines = [];
  for (let row = 0; row < rows.length; row += 1) {
    const { from, to } = rows[row];
    for (let at = from; at < to || at === from; at += width) {
      lines.push({ row, from: at, to: Math.min(at + width, to), first: at === from });
    }
  }
  return lines;
}
