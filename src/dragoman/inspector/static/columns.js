// The three linked columns: upstream bytes, events, client bytes. Rows are virtual, 24 px each; ribbons in the
// gutters connect the rows of one block.

import { ByteSource, byteLength, lineText, locatePayload } from "./bytes.js";
import { count, dialect, h, number, svg, visible } from "./dom.js";
import { COLUMNS } from "./links.js";
import { payloadLines, rawLines } from "./rows.js";
import { virtualList } from "./virtual.js";

const ROW = 24;
const GUTTER = 26;
const NARROW = "(max-width: 860px)";
const COLOURS = { reasoning: "ch-reason", text: "ch-text", content: "ch-text", call: "ch-call", tool_calls: "ch-call" };
const LEVELS = { warn: "c-warn", error: "c-error", failed: "c-error" };
const TITLES = { up: "Upstream sent", ev: "What it means", client: "Client got" };
const TABS = { up: "Upstream sent", ev: "Meaning", client: "Client got" };
const DRAG_PX = 4;

/**
 * @typedef {{onPick: (column: import("./links.js").Column, row: number) => void,
 *   onBytes: (column: "up" | "client", from: number, to: number) => void,
 *   onEvents: (from: number, to: number) => void,
 *   fetchBytes: (side: string, from: number, to: number) => Promise<any>}} ColumnsOptions
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
    this.ranges = map.blocks.map((_, block) => blockRows(map, block));
    const sizes = { up: exchange.upstream.size, client: exchange.client.size };
    const sides = { up: "upstream", client: "client" };
    for (const column of COLUMNS) {
      const view = this.views[column];
      if (column !== "ev" && view.bytes?.size !== sizes[column]) {
        view.bytes = new ByteSource((from, to) => this.options.fetchBytes(sides[column], from, to), sizes[column]);
      }
      view.setHeader(...header(column, exchange));
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
      if (on && isNarrow && this.map) view.list.draw();
    }
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

  /** All three columns are as high as the longest one needs, up to the height that the style sheet allows. */
  #fit() {
    const most = Math.max(...COLUMNS.map((column) => this.views[column].lines.length));
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
    for (const column of COLUMNS) this.views[column].list.destroy();
  }
}

/** One column: a listbox with virtual rows. */
class ColumnView {
  constructor(columns, name) {
    this.columns = columns;
    this.name = name;
    this.rows = [];
    this.lines = [];
    this.open = new Set();
    this.selected = new Uint8Array();
    this.cursor = 0;
    this.bytes = null;
    this.note = h("span");
    this.body = h("ol", { role: "presentation" });
    this.scroller = h("div", { class: "rows", role: "listbox", tabindex: "0", id: `rows-${name}`, "aria-label": TITLES[name], "aria-multiselectable": "true" }, this.body);
    this.element = h("section", { class: `col ${name}`, id: `column-${name}`, "aria-label": TITLES[name] }, h("div", { class: "colh" }, h("b", {}, TITLES[name]), this.note), this.scroller);
    this.list = virtualList({ body: this.body, scroller: this.scroller, height: ROW, make: () => h("li", {}), fill: (li, index) => this.#fill(li, index) });
    this.scroller.addEventListener("scroll", () => columns.schedule(), { passive: true });
    this.scroller.addEventListener("pointerdown", (event) => this.#press(event));
    this.scroller.addEventListener("pointerover", (event) => columns.hover(this.#blockAt(event)));
    this.scroller.addEventListener("pointerleave", () => columns.hover(null));
    this.scroller.addEventListener("focus", () => this.#focused());
  }

  setHeader(text, title) {
    this.note.textContent = text;
    this.note.title = title;
  }

  get raw() {
    return this.columns.raw && this.name !== "ev";
  }

  /** Makes the lines again. The row at the top stays there; the end stays visible if `follow` and it was. */
  rebuild(follow = false) {
    const { map } = this.columns;
    const known = this.rows.length;
    const [top, offset] = this.#topRow();
    const atEnd = this.scroller.scrollTop + this.scroller.clientHeight >= this.scroller.scrollHeight - ROW;
    this.rows = map.rows[this.name];
    const digits = String(this.raw ? (this.rows.at(-1)?.to ?? 0) : this.rows.length).length;
    this.element.style.setProperty("--digits", `${Math.max(3, digits)}ch`);
    this.#makeLines();
    this.list.setCount(this.lines.length);
    if (known) this.scroller.scrollTop = (this.lineOf[top] ?? 0) * ROW + offset;
    if (known && follow && atEnd) this.scroller.scrollTop = this.scroller.scrollHeight;
    this.cursor = Math.min(this.cursor, Math.max(0, this.lines.length - 1));
    this.list.draw();
  }

  #makeLines() {
    const { map } = this.columns;
    const { timeline, blocks } = map.exchange;
    const options = { blocks, stalls: this.name === "up" ? timeline.stalls : [], open: this.open };
    this.lines = this.raw ? rawLines(this.rows, this.#bytesPerLine()) : payloadLines(this.rows, (row) => map.blockOf(this.name, row), options);
    this.lineOf = new Int32Array(this.rows.length);
    this.lastLineOf = new Int32Array(this.rows.length);
    for (const [index, line] of this.lines.entries()) {
      if (line.gap) continue;
      if (line.fold !== undefined) {
        this.lineOf.fill(index, line.fold, line.last + 1);
        this.lastLineOf.fill(index, line.fold, line.last + 1);
        continue;
      }
      if (line.first) this.lineOf[line.row] = index;
      this.lastLineOf[line.row] = index;
    }
    if (this.selected.length !== this.rows.length) this.setSelected([]);
  }

  #bytesPerLine() {
    const probe = h("span", { class: "p" }, "0".repeat(50));
    const li = h("li", { class: "ev probe", "aria-hidden": "true" }, h("span", { class: "n" }), h("span", { class: "f" }), h("span", { class: "p room" }, probe));
    this.element.append(li);
    const room = li.querySelector(".room").clientWidth;
    const width = probe.getBoundingClientRect().width / 50;
    li.remove();
    return Math.max(16, Math.floor(room / (width || 7)) - 3);
  }

  #topRow() {
    const line = this.lines[Math.floor(this.scroller.scrollTop / ROW)];
    return line && line.row !== undefined ? [line.row, this.scroller.scrollTop % ROW] : [line?.fold ?? 0, 0];
  }

  setSelected(rows) {
    this.selected = new Uint8Array(this.rows.length);
    for (const row of rows) this.selected[row] = 1;
  }

  /** Unfolds the run that hides the first of these rows. */
  unfold(rows) {
    const line = rows.length ? this.lines[this.lineOf[rows[0]]] : null;
    if (line?.fold === undefined) return;
    this.open.add(line.run);
    const scroll = this.scroller.scrollTop;
    this.#makeLines();
    this.setSelected(rows);
    this.list.setCount(this.lines.length);
    this.scroller.scrollTop = scroll;
  }

  reveal(rows, range) {
    if (!rows.length) return;
    let line = this.lineOf[rows[0]];
    if (this.raw && range) while (this.lines[line + 1]?.row === rows[0] && this.lines[line].to <= range[0]) line += 1;
    this.cursor = line;
    this.list.reveal(line);
  }

  /** The top and the bottom of a range of rows, measured from the top of what is visible. */
  extent([first, last]) {
    const scroll = this.scroller.scrollTop;
    return [this.lineOf[first] * ROW - scroll, (this.lastLineOf[last] + 1) * ROW - scroll];
  }

  /**
   * Moves the cursor by lines.
   * @param {number} step
   */
  move(step) {
    let next = this.cursor + step;
    while (this.lines[next]?.gap) next += Math.sign(step);
    if (next < 0 || next >= this.lines.length) return;
    this.setCursor(next);
    this.list.reveal(next);
    this.list.draw();
  }

  setCursor(line) {
    const before = this.cursor;
    this.cursor = line;
    this.list.drawRow(before);
    this.list.drawRow(line);
    this.scroller.setAttribute("aria-activedescendant", `${this.name}-${line}`);
  }

  #focused() {
    this.columns.show(this.name);
    this.setCursor(this.cursor);
  }

  focus() {
    this.scroller.focus({ preventScroll: true });
  }

  /** Selects the row at the cursor, or unfolds the run. */
  pick(index = this.cursor) {
    const line = this.lines[index];
    if (!line || line.gap) return;
    if (line.fold !== undefined) {
      this.open.add(line.run);
      this.rebuild();
      this.columns.select(this.columns.selection, this.columns.resolved, this.name);
      return;
    }
    this.columns.options.onPick(this.name, line.row);
  }

  #fill(li, index) {
    const line = this.lines[index];
    const on = this.#isSelected(line);
    li.id = `${this.name}-${index}`;
    li.setAttribute("role", "option");
    li.setAttribute("aria-posinset", index + 1);
    li.setAttribute("aria-setsize", this.lines.length);
    li.setAttribute("aria-selected", String(on));
    if (line.gap) li.setAttribute("aria-disabled", "true");
    else li.removeAttribute("aria-disabled");
    const kind = line.gap ? " gap" : line.fold !== undefined ? " foldrow" : "";
    li.className = `ev${kind}${on ? " sel" : ""}${index === this.cursor ? " cur" : ""}`;
    if (line.gap || line.label) li.replaceChildren(line.gap ?? line.label);
    else this.#fillRow(li, line);
  }

  #isSelected(line) {
    if (line.row !== undefined) return this.selected[line.row] === 1;
    if (line.fold === undefined) return false;
    for (let row = line.fold; row <= line.last; row += 1) if (this.selected[row]) return true;
    return false;
  }

  #fillRow(li, line) {
    const row = this.rows[line.row];
    const text = this.raw ? this.#rawText(line) : row.text + (row.cut ? "…" : "");
    const kind = line.first ? shortKind(row.kind) : "";
    const payload = h("span", { class: `p ${this.#colour(row, line.row)}`, title: this.raw ? "" : text }, this.#pieces(row, line, text));
    const number_ = this.raw ? number(line.from) : String(line.row + 1);
    li.replaceChildren(h("span", { class: "n" }, number_), h("span", { class: "f", title: row.kind }, kind), payload);
    if (this.name === "up" && line.first) li.append(h("span", { class: "at" }, (row.at / 1000).toFixed(2)));
  }

  #rawText(line) {
    const bytes = this.bytes.peek(line.from, line.to + 3);
    if (bytes) return lineText(bytes, line.to - line.from);
    this.bytes.read(line.from, line.to + 3).then(() => this.list.draw(), () => {});
    return "";
  }

  #colour(row, index) {
    if (LEVELS[row.level]) return LEVELS[row.level];
    if (this.name === "up") return COLOURS[row.kind] ?? "";
    const block = this.columns.map.blockOf(this.name, index);
    return block === null ? "" : (COLOURS[this.columns.map.blocks[block].kind] ?? "");
  }

  #pieces(row, line, text) {
    const marks = this.raw ? [] : row.kind === "marker" ? [[0, text.length]] : (row.marks ?? []);
    const range = this.selected[line.row] ? this.#selectedPart(row, line, text) : null;
    const edges = new Set([0, text.length]);
    for (const [from, to] of range ? [...marks, range] : marks) edges.add(from).add(to);
    const cuts = [...edges].filter((edge) => edge >= 0 && edge <= text.length).sort((a, b) => a - b);
    return cuts.slice(1).map((to, index) => {
      const from = cuts[index];
      const isMarker = marks.some((mark) => mark[0] <= from && to <= mark[1]);
      const isOn = range !== null && range[0] <= from && to <= range[1];
      const nodes = oneLine(text.slice(from, to));
      return isMarker || isOn ? h("mark", { class: `${isMarker ? "mk" : ""}${isOn ? " on" : ""}` }, nodes) : nodes;
    });
  }

  /** Which characters of a selected row the selection covers. */
  #selectedPart(row, line, text) {
    const { selection, resolved, map } = this.columns;
    const bytes = resolved.bytes[this.name];
    if (this.raw) return this.#rawPart(line, text, bytes);
    if (selection.kind === "bytes" && bytes) return this.#payloadPart(row, text, bytes);
    if (selection.kind === "block" && map.isShared(this.name, line.row)) return sharedPart(row, line.row, text, this.columns.ranges[selection.block][this.name], map.blocks[selection.block]);
    return [0, text.length];
  }

  #rawPart(line, text, bytes) {
    if (!bytes || bytes[1] <= line.from || bytes[0] >= line.to) return null;
    return [unitAt(text, bytes[0] - line.from), unitAt(text, bytes[1] - line.from)];
  }

  #payloadPart(row, text, [from, to]) {
    if (from <= row.from && row.to <= to) return [0, text.length];
    const raw = this.bytes.peek(row.from, row.to);
    if (!raw) {
      this.bytes.read(row.from, row.to).then(() => this.list.draw(), () => {});
      return [0, text.length];
    }
    const offsets = locatePayload(raw, row.text);
    if (!offsets) return [0, text.length];
    const first = offsets.findIndex((offset) => row.from + offset >= from);
    const last = offsets.findLastIndex((offset) => row.from + offset <= to);
    return first < 0 || last < first ? null : [first, last];
  }

  // ---- the pointer: a click selects, a drag selects bytes

  #lineAt(event) {
    const li = document.elementFromPoint(event.clientX, event.clientY)?.closest("li");
    if (!li || !this.body.contains(li)) return -1;
    return Number(li.id.slice(this.name.length + 1));
  }

  #blockAt(event) {
    const line = this.lines[this.#lineAt(event)];
    return line?.row === undefined ? null : this.columns.map.blockOf(this.name, line.row);
  }

  #press(event) {
    if (event.button !== 0 || event.clientX > this.scroller.getBoundingClientRect().left + this.scroller.clientWidth) return;
    const start = this.#place(event);
    if (!start) return;
    let end = null;
    const move = (moved) => {
      if (!end && Math.hypot(moved.clientX - event.clientX, moved.clientY - event.clientY) < DRAG_PX) return;
      end = this.#place(moved) ?? end;
      if (end) this.#showDrag(start, end);
    };
    const finish = (type) => () => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", up);
      window.removeEventListener("pointercancel", cancel);
      this.#clearDrag();
      if (type === "cancel") return;
      this.setCursor(start.index);
      if (end) this.#dragged(start, end);
      else this.pick(start.index);
    };
    const [up, cancel] = [finish("up"), finish("cancel")];
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", up);
    window.addEventListener("pointercancel", cancel);
    if (event.pointerType === "mouse") event.preventDefault();
    this.focus();
  }

  /** The line at the pointer and the character in its text. */
  #place(event) {
    const index = this.#lineAt(event);
    if (!this.lines[index] || this.lines[index].gap) return null;
    const text = this.list.element(index)?.querySelector(".p");
    return { index, unit: text ? unitAtPoint(text, event) : 0 };
  }

  #showDrag(start, end) {
    const [first, last] = [Math.min(start.index, end.index), Math.max(start.index, end.index)];
    for (let index = first; index <= last; index += 1) this.list.element(index)?.classList.add("drag");
  }

  #clearDrag() {
    for (const li of this.body.querySelectorAll(".drag")) li.classList.remove("drag");
  }

  async #dragged(start, end) {
    const [a, b] = start.index < end.index || (start.index === end.index && start.unit <= end.unit) ? [start, end] : [end, start];
    const [first, last] = [this.lines[a.index], this.lines[b.index]];
    if (this.name === "ev") {
      this.columns.options.onEvents(first.row ?? first.fold, last.row ?? last.last);
      return;
    }
    const from = await this.#byteAt(first, a.unit, true);
    const to = await this.#byteAt(last, b.unit, false);
    if (to > from) this.columns.options.onBytes(this.name, from, to);
  }

  /** The byte at a character of a line. A payload that is not found in the row's bytes covers the whole row. */
  async #byteAt(line, unit, isStart) {
    if (line.fold !== undefined) return isStart ? this.rows[line.fold].from : this.rows[line.last].to;
    const row = this.rows[line.row];
    const [from, to] = this.raw ? [line.from, line.to] : [row.from, row.to];
    const bytes = await this.bytes.read(from, this.raw ? to + 3 : to);
    if (this.raw) return Math.min(to, from + byteLength(lineText(bytes, to - from), unit));
    const offsets = locatePayload(bytes, row.text);
    return offsets ? row.from + offsets[Math.min(unit, offsets.length - 1)] : isStart ? row.from : row.to;
  }
}

function ribbon() {
  const picture = svg("svg", { width: GUTTER });
  return { svg: picture, box: h("div", { class: "rib", "aria-hidden": "true" }, picture) };
}

function tab(column, onclick) {
  return h("button", { type: "button", role: "tab", "aria-controls": `column-${column}`, onclick }, TABS[column]);
}

function header(column, exchange) {
  if (column === "ev") return [count(exchange.meaning.rows.length, "event"), ""];
  const side = column === "up" ? exchange.upstream : exchange.client;
  const text = `${dialect(side.dialect)} · ${count(side.rows.length, column === "up" ? "chunk" : "event")} · ${number(side.size)} B`;
  return [text, text];
}

/** The first and the last row of a block in each column. */
function blockRows(map, block) {
  const { rows } = map.resolve({ kind: "block", block });
  const ends = (column) => (rows[column].length ? [rows[column][0], rows[column].at(-1)] : null);
  return { up: ends("up"), ev: ends("ev"), client: ends("client") };
}

/** The part of a row that two blocks share: a call begins at its first marker and ends after its last. */
function sharedPart(row, index, text, [first, last], block) {
  const marks = row.marks ?? [];
  if (!marks.length) return [0, text.length];
  const [begin, end] = [marks[0][0], marks.at(-1)[1]];
  if (block.kind === "call") return [index === first ? begin : 0, index === last ? end : text.length];
  return index === last ? [0, begin] : [end, text.length];
}

function shortKind(kind) {
  return kind.replace(/^content_|^response\./, "");
}

/** The nodes of a text on one line: line breaks and tabs are escapes too. */
export function oneLine(text) {
  return text.split(/([\n\t\r])/).map((part) => {
    const escape = { "\n": "\\n", "\t": "\\t", "\r": "\\r" }[part];
    return escape ? h("span", { class: "esc" }, escape) : part ? visible(part) : null;
  });
}

/** The number of UTF-16 units of a text in its first `bytes` bytes. */
function unitAt(text, bytes) {
  if (bytes <= 0) return 0;
  let [units, taken] = [0, 0];
  for (const character of text) {
    taken += byteLength(character);
    if (taken > bytes) break;
    units += character.length;
  }
  return units;
}

/** The character of a payload at the pointer; an escape is one character. */
function unitAtPoint(element, event) {
  const box = element.getBoundingClientRect();
  if (event.clientX <= box.left) return 0;
  const place = document.caretPositionFromPoint?.(event.clientX, event.clientY);
  const [node, offset] = place ? [place.offsetNode, place.offset] : caretRange(event);
  if (!node || !element.contains(node)) return event.clientX > box.left ? lengthOf(element) : 0;
  return unitsBefore(element, node, offset);
}

function caretRange(event) {
  const range_ = document.caretRangeFromPoint?.(event.clientX, event.clientY);
  return range_ ? [range_.startContainer, range_.startOffset] : [null, 0];
}

function lengthOf(element) {
  return unitsBefore(element, null, 0);
}

function unitsBefore(element, target, offset) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let units = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const escape = node.parentElement.classList.contains("esc");
    if (node === target) return units + (escape ? Number(offset > node.length / 2) : offset);
    units += escape ? 1 : node.length;
  }
  return units;
}

