// One of the linked columns: a listbox of virtual rows, 24 px each. A click selects, a drag selects bytes.

import { byteLength, lineText, locatePayload } from "./bytes.js";
import { h, number, visible } from "./dom.js";
import { payloadLines, rawLines } from "./column_lines.js";
import { virtualList } from "./virtual.js";

/** The height of a line in pixels. */
export const ROW = 24;

const COLOURS = { reasoning: "ch-reason", text: "ch-text", content: "ch-text", call: "ch-call", tool_calls: "ch-call" };
const LEVELS = { warn: "c-warn", error: "c-error", failed: "c-error" };
const TITLES = { up: "Upstream sent", ev: "What it means", client: "Client got" };
const EMPTY = { up: "No byte came from the upstream.", ev: "No event.", client: "No byte went to the client." };
const DRAG_PX = 4;
const LINES_ABOVE = 4;

/** One column of `Columns`. */
export class ColumnView {
  /**
   * @param {import("./columns.js").Columns} columns
   * @param {import("./links.js").Column} name
   */
  constructor(columns, name) {
    this.columns = columns;
    this.name = name;
    this.rows = [];
    this.lines = [];
    this.open = new Set();
    this.selected = new Uint8Array();
    this.cursor = 0;
    this.bytes = null;
    this.frame = null;
    this.note = h("span");
    this.body = h("ol", { role: "presentation" });
    this.scroller = h("div", { class: "rows", role: "listbox", tabindex: "0", id: `rows-${name}`, "aria-label": TITLES[name], "aria-multiselectable": "true" }, this.body);
    this.empty = h("p", { class: "none", hidden: true }, EMPTY[name]);
    this.element = h("section", { class: `col col-${name}`, id: `column-${name}`, "aria-label": TITLES[name] }, h("div", { class: "colh" }, h("b", {}, TITLES[name]), this.note), this.empty, this.scroller);
    this.list = virtualList({ body: this.body, scroller: this.scroller, height: ROW, make: () => h("li", {}), fill: (li, index) => this.#fill(li, index) });
    this.scroller.addEventListener("scroll", () => columns.schedule(), { passive: true });
    this.scroller.addEventListener("pointerdown", (event) => this.#press(event));
    this.scroller.addEventListener("pointerover", (event) => columns.hover(this.#blockAt(event)));
    this.scroller.addEventListener("pointerleave", () => columns.hover(null));
    this.scroller.addEventListener("focus", () => this.#focused());
  }

  setHeader(text) {
    this.note.textContent = text;
    this.note.title = text;
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
    this.empty.hidden = this.lines.length > 0;
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

  /** How many characters of the raw view fit on a line, less what escapes may need. */
  #bytesPerLine() {
    const probe = h("span", { class: "width" }, "0".repeat(50));
    const room = h("span", { class: "p" }, probe);
    const li = h("li", { class: "ev probe", "aria-hidden": "true" }, h("span", { class: "n" }), h("span", { class: "f" }), room, h("span", { class: "at" }, "00.00"));
    this.scroller.append(li);
    const fits = room.clientWidth / (probe.getBoundingClientRect().width / 50);
    li.remove();
    return Math.max(16, Math.floor(fits) - 2);
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

  /** Scrolls so that the first of these rows is visible, with some rows above it. */
  reveal(rows, range) {
    if (!rows.length) return;
    let line = this.lineOf[rows[0]];
    if (this.raw && range) while (this.lines[line + 1]?.row === rows[0] && this.lines[line].to <= range[0]) line += 1;
    this.cursor = line;
    const { scrollTop, clientHeight } = this.scroller;
    const isVisible = line * ROW >= scrollTop && (line + 1) * ROW <= scrollTop + clientHeight;
    if (!isVisible) this.scroller.scrollTop = (line - LINES_ABOVE) * ROW;
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

  destroy() {
    cancelAnimationFrame(this.frame);
    this.list.destroy();
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
    if (row.text === undefined && !this.raw) this.columns.pages.load(this.name, line.row);
    const text = this.raw ? this.#rawText(line) : (row.text ?? "") + (row.cut ? "…" : "");
    const kind = line.first ? shortKind(row.kind) : "";
    const payload = h("span", { class: `p ${this.#colour(row, line.row)}`, title: this.raw ? "" : text }, this.#pieces(row, line, text));
    const number_ = this.raw ? number(line.from) : String(line.row + 1);
    li.replaceChildren(h("span", { class: "n" }, number_), h("span", { class: "f", title: row.kind }, kind), payload);
    if (this.name === "up" && line.first) li.append(h("span", { class: "at" }, (row.at / 1000).toFixed(2)));
  }

  #rawText(line) {
    const bytes = this.bytes.peek(line.from, line.to + 3);
    if (bytes) return lineText(bytes, line.to - line.from);
    this.#load(line.from, line.to + 3);
    return "";
  }

  /** Fetches bytes and draws when they are here: once, however many lines wait for them. */
  async #load(from, to) {
    try {
      await this.bytes.read(from, to);
    } catch {
      return; // the line stays empty; the next draw asks again
    }
    this.drawSoon();
  }

  /** Draws before the next frame, once. */
  drawSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.list.draw();
    });
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
      this.#load(row.from, row.to);
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

/** The part of a row that two blocks share: a call begins at its first marker and ends after its last. */
function sharedPart(row, index, text, [first, last], block) {
  const marks = row.marks ?? [];
  if (!marks.length) return [0, text.length];
  const [begin, end] = [marks[0][0], marks.at(-1)[1]];
  if (block.kind === "call") return [index === first ? begin : 0, index === last ? end : text.length];
  return index === last ? [0, begin] : [end, text.length];
}

function shortKind(kind) {
  return kind.replace(/^content_block_(delta)$|^content_|^response\./, "$1");
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

