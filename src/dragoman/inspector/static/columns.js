// The three linked columns: upstream bytes, events, client bytes. Ribbons in the gutters connect the rows of one block.

import { ByteSource } from "./bytes.js";
import { ColumnView, ROW } from "./column.js";
import { count, dialect, h, number, svg } from "./dom.js";
import { COLUMNS } from "./links.js";
import { RowPages, SIDES } from "./rows.js";

const GUTTER = 26;
const NARROW = "(max-width: 860px)";
const TABS = { up: "Upstream sent", ev: "Meaning", client: "Client got" };

/**
 * @typedef {{onPick: (column: import("./links.js").Column, row: number) => void,
 *   onBytes: (column: "up" | "client", from: number, to: number) => void,
 *   onEvents: (from: number, to: number) => void,
 *   fetchBytes: (side: string, from: number, to: number) => Promise<any>,
 *   fetchRows: (side: string, from: number) => Promise<any>}} ColumnsOptions
 */

/** The three columns and their ribbons. */
export class Columns {
  /** @param {ColumnsOptions} options */
  constructor(options) {
    this.options = options;
    this.raw = false;
    this.map = null;
    this.resolved = null;
    this.selection = null;
    this.hovered = null;
    this.frame = 0;
    /** @type {Record<string, ColumnView>} */
    this.views = {};
    for (const column of COLUMNS) this.views[column] = new ColumnView(this, column);
    this.pages = new RowPages(options.fetchRows, (column) => this.views[column].drawSoon());
    this.ribbons = [ribbon(), ribbon()];
    this.tabs = COLUMNS.map((column) => tab(column, () => this.show(column)));
    this.tablist = h("div", { class: "seg", role: "tablist", "aria-label": "Column", onkeydown: (event) => this.#moveTab(event) }, this.tabs);
    const [up, ev, client] = COLUMNS.map((column) => this.views[column].element);
    this.grid = h("div", { class: "linked" }, up, this.ribbons[0].box, ev, this.ribbons[1].box, client);
    this.element = h("div", {}, h("div", { class: "coltabs" }, this.tablist), this.grid);
    this.narrow = matchMedia(NARROW);
    this.onNarrow = () => this.show(this.active);
    this.narrow.addEventListener("change", this.onNarrow);
    this.resize = new ResizeObserver(() => this.#resized());
    this.resize.observe(this.grid);
    this.show("up");
  }

  /** @param {import("./links.js").LinkMap} map */
  setMap(map) {
    const { exchange } = map;
    this.map = map;
    this.pages.setMap(map);
    this.ranges = map.blocks.map((_, block) => blockRows(map, block));
    const sizes = { up: exchange.upstream.size, client: exchange.client.size };
    for (const column of COLUMNS) {
      const view = this.views[column];
      if (column !== "ev" && view.bytes?.size !== sizes[column]) {
        view.bytes = new ByteSource((from, to) => this.options.fetchBytes(SIDES[column], from, to), sizes[column]);
      }
      view.setHeader(header(column, map));
      view.rebuild(true);
    }
    this.#fit();
  }

  /** @param {boolean} raw */
  setRaw(raw) {
    if (raw === this.raw) return;
    this.raw = raw;
    for (const column of COLUMNS) this.views[column].rebuild();
    this.#fit();
  }

  /**
   * Shows a selection; every column but `origin` scrolls to its first selected row.
   * @param {import("./links.js").Selection | null} selection
   * @param {import("./links.js").Resolved | null} resolved
   * @param {string} [origin] the column that was clicked
   */
  select(selection, resolved, origin) {
    this.selection = selection;
    this.resolved = resolved;
    for (const column of COLUMNS) {
      const view = this.views[column];
      view.setSelected(resolved?.rows[column] ?? []);
      if (resolved && selection.kind !== "block") view.unfold(resolved.rows[column]);
      if (resolved && column !== origin) view.reveal(resolved.rows[column], resolved.bytes[column]);
      view.list.draw();
    }
    this.#fit();
  }

  /** @param {import("./links.js").Column} column the one that is visible on a narrow screen, and that keys move in */
  show(column) {
    this.active = column;
    const isNarrow = this.narrow.matches;
    for (const [index, name] of COLUMNS.entries()) {
      const view = this.views[name];
      const on = name === column;
      this.tabs[index].setAttribute("aria-selected", String(on));
      this.tabs[index].tabIndex = on ? 0 : -1;
      view.element.classList.toggle("off", !on);
      if (isNarrow) view.element.setAttribute("role", "tabpanel");
      else view.element.removeAttribute("role");
    }
    if (!this.map) return;
    this.#fit();
    if (isNarrow) this.views[column].list.draw();
  }

  #moveTab(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    this.move(step);
    this.tabs[COLUMNS.indexOf(this.active)].focus();
  }

  /**
   * Makes the column to the left or to the right the active one.
   * @param {number} step
   */
  move(step) {
    const index = COLUMNS.indexOf(this.active) + step;
    if (index >= 0 && index < COLUMNS.length) this.show(COLUMNS[index]);
  }

  /** The view that keys move in. */
  get current() {
    return this.views[this.active];
  }

  /** @param {number | null} block the block under the pointer */
  hover(block) {
    if (block === this.hovered) return;
    this.hovered = block;
    this.schedule();
  }

  /** Draws the ribbons before the next frame. */
  schedule() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.#ribbons());
  }

  #ribbons() {
    this.frame = 0;
    if (!this.map || this.narrow.matches) return;
    for (const [index, [left, right]] of [["up", "ev"], ["ev", "client"]].entries()) {
      const shapes = [];
      for (let block = 0; block < this.map.blocks.length; block += 1) {
        if (block !== this.#wholeBlock()) shapes.push(this.#ribbon(block, left, right));
      }
      shapes.push(this.#selectedRibbon(left, right));
      this.ribbons[index].svg.replaceChildren(...shapes.filter(Boolean));
    }
  }

  #wholeBlock() {
    return this.selection?.kind === "block" ? this.selection.block : null;
  }

  #ribbon(block, left, right) {
    const ranges = this.ranges[block];
    const path = this.#path(left, ranges[left], right, ranges[right]);
    if (!path) return null;
    const kind = { reasoning: "reason", call: "call" }[this.map.blocks[block].kind] ?? "";
    return svg("path", { class: `${kind}${block === this.hovered ? " hover" : ""}`, d: path, data: { block } });
  }

  #selectedRibbon(left, right) {
    if (!this.resolved) return null;
    const ends = (rows) => (rows.length ? [rows[0], rows[rows.length - 1]] : null);
    const path = this.#path(left, ends(this.resolved.rows[left]), right, ends(this.resolved.rows[right]));
    return path && svg("path", { class: "sel", d: path });
  }

  #path(left, leftRows, right, rightRows) {
    if (!leftRows || !rightRows) return null;
    const [a, b] = this.views[left].extent(leftRows);
    const [c, d] = this.views[right].extent(rightRows);
    const height = this.views[left].scroller.clientHeight;
    if ((b < 0 && d < 0) || (a > height && c > height)) return null;
    const middle = GUTTER / 2;
    return `M0 ${a + 0.5}C${middle} ${a + 0.5} ${middle} ${c + 0.5} ${GUTTER} ${c + 0.5}V${d - 0.5}C${middle} ${d - 0.5} ${middle} ${b - 0.5} 0 ${b - 0.5}Z`;
  }

  /** The columns are as high as the longest one that is visible needs, up to the height that the style sheet allows. */
  #fit() {
    const shown = this.narrow.matches ? [this.active] : COLUMNS;
    const most = Math.max(1, ...shown.map((column) => this.views[column].lines.length));
    this.grid.style.setProperty("--rows-height", `${most * ROW}px`);
    this.schedule();
  }

  #resized() {
    if (!this.map) return;
    if (this.raw) for (const column of COLUMNS) this.views[column].rebuild();
    else for (const column of COLUMNS) this.views[column].list.draw();
    this.#fit();
  }

  destroy() {
    cancelAnimationFrame(this.frame);
    this.resize.disconnect();
    this.narrow.removeEventListener("change", this.onNarrow);
    for (const column of COLUMNS) this.views[column].destroy();
  }
}

function ribbon() {
  const picture = svg("svg", { width: GUTTER });
  return { svg: picture, box: h("div", { class: "rib", "aria-hidden": "true" }, picture) };
}

function tab(column, onclick) {
  return h("button", { type: "button", role: "tab", "aria-controls": `column-${column}`, onclick }, TABS[column]);
}

/** What is in a column: the dialect, rows, bytes. */
function header(column, map) {
  const side = map.exchange[SIDES[column]];
  const rows = count(map.rows[column].length, column === "up" ? "chunk" : "event");
  const parts = [side.dialect && dialect(side.dialect), rows, column === "ev" ? "" : `${number(side.size)} B`];
  return parts.filter(Boolean).join(" · ");
}

/** The first and the last row of a block in each column. */
function blockRows(map, block) {
  const { rows } = map.resolve({ kind: "block", block });
  const ends = (column) => (rows[column].length ? [rows[column][0], rows[column].at(-1)] : null);
  return { up: ends("up"), ev: ends("ev"), client: ends("client") };
}
