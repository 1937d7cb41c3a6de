// Which upstream bytes, which events and which client bytes belong together, and what a selection covers.
//
// The server sends `links` (rows of the three columns that belong to each other) and `blocks` (reasoning, text,
// one tool call). A selection is a block, one row, a range of bytes or a range of events; `resolve` finds the
// rows and the byte ranges on every side.

import { allLinks, allRows } from "./rows.js";

/**
 * @typedef {"up" | "ev" | "client"} Column
 * @typedef {{kind: "block", block: number}
 *   | {kind: "row", column: Column, row: number}
 *   | {kind: "bytes", column: "up" | "client", from: number, to: number}
 *   | {kind: "events", from: number, to: number}} Selection
 * @typedef {{title: string, block: number | null, call: number | null,
 *   rows: {up: number[], ev: number[], client: number[]},
 *   bytes: {up: [number, number] | null, client: [number, number] | null}}} Resolved
 */

/** @type {Column[]} */
export const COLUMNS = ["up", "ev", "client"];

const RANGE = /^(up|ev|client|call):(\d+)(?:-(\d+))?$/;

/** The map between the three columns of one exchange. */
export class LinkMap {
  /**
   * @param {any} exchange the server's answer for one exchange
   * @param {LinkMap} [before] the map of an earlier answer, whose rows may have text already
   */
  constructor(exchange, before) {
    this.exchange = exchange;
    this.rows = { up: allRows(exchange.upstream, before?.rows.up), ev: allRows(exchange.meaning, before?.rows.ev), client: allRows(exchange.client, before?.rows.client) };
    this.links = allLinks(exchange.links);
    this.blocks = exchange.blocks;
    this.linksOf = { up: new Map(), ev: new Map(), client: new Map() };
    this.linksOfBlock = this.blocks.map(() => []);
    for (const link of this.links) this.#index(link);
  }

  #index(link) {
    for (const column of COLUMNS) {
      for (const row of link[column]) {
        const known = this.linksOf[column].get(row);
        if (known) known.push(link);
        else this.linksOf[column].set(row, [link]);
      }
    }
    if (link.block !== null) this.linksOfBlock[link.block]?.push(link);
  }

  /**
   * The block that a row belongs to, or null. A row that two blocks share (a marker that begins in mid-text)
   * belongs to the later one.
   * @param {Column} column
   * @param {number} row
   * @returns {number | null}
   */
  blockOf(column, row) {
    const links = this.linksOf[column].get(row);
    return links ? links[links.length - 1].block : null;
  }

  /**
   * Whether more than one block has a part in a row.
   * @param {Column} column
   * @param {number} row
   */
  isShared(column, row) {
    const links = this.linksOf[column].get(row) ?? [];
    return links.some((link) => link.block !== links[0].block);
  }

  /**
   * What a selection covers in the three columns.
   * @param {Selection} selection
   * @returns {Resolved}
   */
  resolve(selection) {
    switch (selection.kind) {
      case "block":
        return this.#block(selection.block);
      case "row":
        return this.#row(selection.column, selection.row);
      case "events":
        return this.#some("ev", range(selection.from, selection.to), null);
      default:
        return this.#bytes(selection);
    }
  }

  #block(index) {
    const block = this.blocks[index];
    const rows = this.#together(this.linksOfBlock[index]);
    const bytes = { up: block.up_bytes ?? this.#span("up", rows.up), client: block.client_bytes ?? this.#span("client", rows.client) };
    return { title: this.#title(index), block: index, call: block.call, rows, bytes };
  }

  #row(column, row) {
    const all = this.linksOf[column].get(row) ?? [];
    const links = column === "up" ? all : all.filter((link) => link.block === all[all.length - 1].block);
    const found = this.#some(column, [row], links);
    const kind = this.rows[column][row]?.kind ?? "";
    const block = this.blockOf(column, row);
    if (block === null) return { ...found, title: kind || "Row" };
    return { ...found, title: `${this.#title(block)}: ${kind}`, block, call: this.blocks[block].call };
  }

  #bytes({ column, from, to }) {
    const rows = this.rowsOfBytes(column, from, to);
    const found = this.#some(column, rows, null);
    found.bytes[column] = [from, to];
    return found;
  }

  /** Rows picked in one column, and what is linked to them in the others. */
  #some(column, picked, links) {
    const used = links ?? [...new Set(picked.flatMap((row) => this.linksOf[column].get(row) ?? []))];
    const rows = this.#together(used);
    rows[column] = picked;
    const blocks = new Set(used.map((link) => link.block));
    const block = blocks.size === 1 ? [...blocks][0] : null;
    const names = column === "ev" ? ["Event", "Events"] : ["Bytes", "Bytes"];
    return {
      title: block === null ? names[Number(picked.length > 1)] : `${this.#title(block)}: part`,
      block,
      call: block === null ? null : this.blocks[block].call,
      rows,
      bytes: { up: this.#span("up", rows.up), client: this.#span("client", rows.client) },
    };
  }

  #together(links) {
    const rows = { up: [], ev: [], client: [] };
    for (const link of links) for (const column of COLUMNS) for (const row of link[column]) if (row !== rows[column].at(-1)) rows[column].push(row);
    for (const column of COLUMNS) if (!isAscending(rows[column])) rows[column] = [...new Set(rows[column])].sort((a, b) => a - b);
    return rows;
  }

  #span(column, rows) {
    if (!rows.length) return null;
    const all = this.rows[column];
    return [all[rows[0]].from, all[rows[rows.length - 1]].to];
  }

  #title(index) {
    const block = this.blocks[index];
    if (block.call === null) return block.label;
    return `${this.exchange.calls[block.call]?.name ?? block.label}, call ${block.call + 1}`;
  }

  /**
   * The rows of a column that hold at least one byte of a range.
   * @param {"up" | "client"} column
   * @param {number} from
   * @param {number} to
   */
  rowsOfBytes(column, from, to) {
    const rows = this.rows[column];
    const first = firstIndex(rows.length, (index) => rows[index].to > from);
    const end = firstIndex(rows.length, (index) => rows[index].from >= to);
    return range(first, end - 1);
  }

  /**
   * The block of a tool call, or null.
   * @param {number} call
   */
  blockOfCall(call) {
    const index = this.blocks.findIndex((block) => block.call === call);
    return index < 0 ? null : index;
  }

  /**
   * The row of an event: the column has rows of markers between those of events.
   * @param {number} event
   * @returns {number} -1 if there is none
   */
  rowOfEvent(event) {
    let left = event;
    return this.rows.ev.findIndex(({ kind }) => kind !== "marker" && left-- === 0);
  }

  /**
   * The selection as the value of `sel` in the address: numbers only, never content.
   * @param {Selection | null} selection
   */
  format(selection) {
    if (!selection) return null;
    if (selection.kind === "block") {
      const block = this.blocks[selection.block];
      if (block.call !== null) return `call:${block.call + 1}`;
      return block.ev && `ev:${block.ev[0] + 1}-${block.ev[1] + 1}`;
    }
    if (selection.kind === "bytes") return `${selection.column}:${selection.from}-${selection.to}`;
    if (selection.kind === "events") return `ev:${selection.from + 1}-${selection.to + 1}`;
    if (selection.column === "ev") return `ev:${selection.row + 1}`;
    const row = this.rows[selection.column][selection.row];
    return `${selection.column}:${row.from}-${row.to}`;
  }

  /**
   * The selection that an address names; null where it names nothing in this exchange.
   * @param {string | null} text
   * @returns {Selection | null}
   */
  parse(text) {
    const match = RANGE.exec(text ?? "");
    if (!match) return null;
    const [from, to] = [Number(match[2]), Number(match[3] ?? match[2])];
    if (match[1] === "call") {
      const block = this.blockOfCall(from - 1);
      return block === null ? null : { kind: "block", block };
    }
    return match[1] === "ev" ? this.#parseEvents(match[3] !== undefined, from - 1, to - 1) : this.#parseBytes(match[1], from, to);
  }

  #parseEvents(isRange, from, to) {
    const last = this.rows.ev.length - 1;
    if (from < 0 || from > last || to < from) return null;
    if (!isRange) return { kind: "row", column: "ev", row: from };
    const block = this.blocks.findIndex((each) => each.call === null && each.ev?.[0] === from && each.ev[1] === to);
    return block < 0 ? { kind: "events", from, to: Math.min(to, last) } : { kind: "block", block };
  }

  #parseBytes(column, from, to) {
    const rows = this.rowsOfBytes(column, from, to);
    if (to <= from || !rows.length) return null;
    const row = this.rows[column][rows[0]];
    if (rows.length === 1 && row.from === from && row.to === to) return { kind: "row", column, row: rows[0] };
    return { kind: "bytes", column, from, to };
  }
}

/** The first index below `length` for which `holds` is true (it must stay true after that), or `length`. */
export function firstIndex(length, holds) {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

function isAscending(numbers) {
  return numbers.every((number, index) => index === 0 || numbers[index - 1] < number);
}

function range(from, to) {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => from + index);
}
