// One exchange: which upstream bytes became which event, and what the client got.

import { attemptRows, callCards, vendorCards, warningRows } from "./cards.js";
import { Columns } from "./columns.js";
import { diffValues, diffView } from "./diff.js";
import { count, h, moment, number, replace, seconds, setText } from "./dom.js";
import { exchangeHead, recordingNotices } from "./exchange_head.js";
import { LinkMap } from "./links.js";
import { exchangePath } from "./row.js";
import { showFailure, skeleton, state } from "./states.js";
import { Timeline } from "./timeline.js";

const LIST = "/inspector/exchanges";
const LEAST_REFRESH_MS = 1000;
const READING = "The recording is being read.";

/**
 * @param {HTMLElement} root
 * @param {any} ctx
 */
export function mount(root, ctx) {
  const view = new ExchangeView(root, ctx);
  view.load();
  return { unmount: () => view.destroy(), keys: view.keys };
}

class ExchangeView {
  constructor(root, ctx) {
    this.root = root;
    this.ctx = ctx;
    this.path = `/exchanges/${encodeURIComponent(ctx.id)}`;
    this.stopped = new AbortController();
    this.selection = null;
    this.lastPick = null;
    this.problem = -1;
    this.request = "diff";
    this.keys = this.#keys();
    this.unsubscribe = ctx.live.subscribe((rows) => {
      if (rows.some((row) => row.id === ctx.id)) this.#refreshSoon();
    });
    this.unwatch = ctx.live.watch((_, what) => {
      if (what === "back" && this.exchange?.row.state === "streaming") this.#refreshSoon();
    });
  }

  async load() {
    replace(this.root, skeleton("Loading the exchange", 14));
    try {
      this.#build(await this.#fetch({ part: "first" }));
    } catch (error) {
      if (error.name !== "AbortError") this.#failed(error);
      return;
    }
    try {
      if (this.exchange.more) await this.#loadRest();
      if (this.exchange.row.recorded) await this.#findConversation();
    } catch (error) {
      if (error.status === undefined && error.name !== "AbortError") throw error;
      if (error.status !== undefined) this.ctx.toast(error.message);
    }
  }

  #fetch(params) {
    return this.ctx.api.get(this.path, params, { signal: this.stopped.signal });
  }

  /** Of a large recording the first part is shown while the server reads the rest. */
  async #loadRest() {
    this.#update(await this.#fetch());
    if (this.selection) this.#showSelection("all");
    else this.#restoreSelection();
  }

  /** Grouping all exchanges into conversations may take a while, so that the page does not wait for it. */
  async #findConversation() {
    const conversation = await this.ctx.api.get(`${this.path}/conversation`, undefined, { signal: this.stopped.signal });
    if (!conversation) return;
    this.exchange.conversation = conversation;
    this.#showHead();
  }

  #failed(error) {
    if (error.code === "newer_version") replace(this.root, state("This recording is from a newer version", [error.message], { level: "warn" }));
    else if (error.status === undefined) throw error;
    else showFailure(this.root, error, this.ctx, () => this.load());
  }

  // ---- parts

  #build(exchange) {
    this.timeline = new Timeline({ onBlock: (block) => this.select({ kind: "block", block }), onRow: (row) => this.#pick("up", row) });
    this.columns = new Columns({
      onPick: (column, row) => this.#pick(column, row),
      onBytes: (column, from, to) => this.select({ kind: "bytes", column, from, to }, column),
      onEvents: (from, to) => this.select(from === to ? { kind: "row", column: "ev", row: from } : { kind: "events", from, to }, "ev"),
      fetchBytes: (side, from, to) => this.ctx.api.get(`${this.path}/bytes`, { side, from, to }),
      fetchRows: (column, from) => this.ctx.api.get(`${this.path}/rows`, { column, from }),
    });
    this.head = h("div");
    this.counts = h("span", { class: "hint opt" });
    this.length = h("span", { class: "hint opt" });
    this.bar = h("div", { class: "selbar", hidden: true });
    this.rawSwitch = segments("Show", [["payload", "Payload"], ["raw", "Raw bytes"]], (value) => this.#setRaw(value === "raw"));
    this.replayed = h("div", { class: "stack", hidden: true });
    this.attempts = h("div");
    this.requestBox = h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Request" });
    this.requestHint = h("span", { class: "hint" });
    this.requestSwitch = segments("Show", [["diff", "Diff"], ["received", "Received"], ["sent", "Sent"]], (value) => this.#showRequest(value));
    this.cards = h("div");
    this.callCount = h("span", { class: "hint" });
    this.warnings = h("div");
    this.warningCount = h("span", { class: "hint" });
    replace(this.root, this.head, h("div", { class: "ex" }, this.#mainStack(), this.#aside()));
    this.#update(exchange);
    this.rawSwitch.set("payload");
    if (this.ctx.params.get("show") === "raw") this.#setRaw(true);
    this.#restoreSelection();
  }

  #mainStack() {
    return h("div", { class: "stack" },
      panel("h-tl", "Timeline", [this.counts, grow(), this.length], this.timeline.element),
      this.replayed,
      panel("h-st", "Response", [grow(), this.rawSwitch.element], h("div", { "aria-live": "polite" }, this.bar), this.columns.element),
      (this.attemptPanel = panel("h-at", "Attempts", [(this.route = h("span", { class: "hint" }))], this.attempts)),
      panel("h-df", "Request", [this.requestHint, grow(), this.requestSwitch.element], this.requestBox));
  }

  #aside() {
    return h("aside", { class: "stack aside", "aria-label": "Details" }, panel("h-tc", "Tool calls", [this.callCount], this.cards), panel("h-wa", "Warnings", [this.warningCount], this.warnings));
  }

  /** Shows an exchange, also again when it still streams and has grown. */
  #update(exchange) {
    this.exchange = exchange;
    this.map = new LinkMap(exchange, this.map);
    const { row } = exchange;
    const { up, client } = this.map.rows;
    this.ctx.title(`Exchange ${moment(row.time)}`);
    this.#showHead();
    this.counts.textContent = `${count(up.length, "chunk")} in, ${count(client.length, "event")} out`;
    this.length.textContent = seconds(exchange.timeline.end_ms);
    this.timeline.setMap(this.map);
    this.columns.setMap(this.map);
    replace(this.attempts, attemptRows(exchange.attempts));
    this.attemptPanel.hidden = exchange.attempts.length === 0;
    replace(this.route, row.route ? ["route ", h("code", {}, row.route)] : null);
    this.#fillAside();
    this.#showRequest(this.request);
  }

  #showHead() {
    const { exchange } = this;
    replace(this.head, recordingNotices(exchange), exchangeHead(exchange, { onCurl: () => this.#copyCurl(), onCase: () => this.#makeCase(), onReplay: () => this.#replay(), download: this.ctx.api.address(`${this.path}/recording`) }));
  }

  #fillAside() {
    const { calls, warnings, more } = this.exchange;
    this.callCards = callCards(this.exchange, { onCall: (call) => this.#selectCall(call), onMarker: (from, to) => this.#selectBytes(from, to) });
    const ran = vendorCards(this.exchange, { onBlock: (block) => this.#selectBlock(block) });
    this.callCount.textContent = more ? "" : number(calls.length + ran.length);
    this.warningCount.textContent = number(warnings.length);
    replace(this.cards, this.callCards.length || ran.length ? [...ran, ...this.callCards] : h("p", { class: "none" }, more ? READING : "No tool call in this response."));
    replace(this.warnings, warnings.length ? warningRows(warnings) : h("p", { class: "none" }, "No warnings."));
  }

  #showRequest(kind) {
    this.request = kind;
    this.requestSwitch.set(kind);
    if (this.exchange.more) {
      setText(this.requestHint, "");
      replace(this.requestBox, h("p", { class: "none" }, READING));
      return;
    }
    const { received, sent, diff } = this.exchange.request;
    const last = sent.at(-1);
    setText(this.requestHint, last ? `as received, and as sent to ${last.upstream}` : "as received");
    if (kind === "received" || (kind === "diff" && !last)) replace(this.requestBox, h("pre", { class: "whole" }, received.text));
    else if (kind === "sent") replace(this.requestBox, sent.length ? sent.map((each) => [sent.length > 1 ? h("p", { class: "none" }, `Attempt ${each.attempt}, ${each.upstream}`) : null, h("pre", { class: "whole" }, each.text)]) : h("p", { class: "none" }, "No request was sent."));
    else replace(this.requestBox, diffView(diff, { texts: [received.text, last.text], label: "Request as received, and as sent" }));
  }

  // ---- selection

  /** A click on a row: its block first, the row itself when it is clicked again. */
  #pick(column, row) {
    const block = this.map.blockOf(column, row);
    const again = this.lastPick === `${column}:${row}` && this.selection !== null;
    this.lastPick = `${column}:${row}`;
    this.select(block === null || again ? { kind: "row", column, row } : { kind: "block", block }, column);
  }

  #selectCall(call) {
    this.#selectBlock(this.map.blockOfCall(call));
  }

  #selectBlock(block) {
    if (block === null || !this.map.blocks[block]) return;
    this.select({ kind: "block", block });
    this.#bringColumns();
  }

  #selectBytes(from, to) {
    this.columns.show("up");
    this.select({ kind: "bytes", column: "up", from, to });
    this.#bringColumns();
  }

  /** Scrolls the page to the columns if none of them can be seen, as on a narrow screen. */
  #bringColumns() {
    const { top, bottom } = this.columns.grid.getBoundingClientRect();
    if (bottom < 80 || top > window.innerHeight - 80) this.columns.element.parentElement.scrollIntoView({ block: "start" });
  }

  /**
   * Selects in the timeline, the columns, the cards and the address.
   * @param {import("./links.js").Selection | null} selection
   * @param {string} [origin] the column that does not scroll
   */
  select(selection, origin) {
    this.selection = selection;
    if (!selection || !origin) this.lastPick = null;
    this.#showSelection(origin);
    this.ctx.setParams({ sel: this.map.format(selection) });
  }

  #showSelection(origin) {
    const resolved = this.selection && this.map.resolve(this.selection);
    this.resolved = resolved;
    this.timeline.select(resolved);
    this.columns.select(this.selection, resolved, origin);
    for (const [index, card] of this.callCards.entries()) card.classList.toggle("sel", resolved?.call === index);
    this.bar.hidden = !resolved;
    if (resolved) replace(this.bar, selectionLine(resolved), grow(), h("button", { type: "button", class: "clear", onclick: () => this.select(null) }, "Esc clears"));
    else replace(this.bar);
  }

  #restoreSelection() {
    this.selection = this.map.parse(this.ctx.params.get("sel"));
    this.#showSelection();
  }

  #setRaw(raw) {
    this.rawSwitch.set(raw ? "raw" : "payload");
    this.columns.setRaw(raw);
    this.ctx.setParams({ show: raw ? "raw" : null });
  }

  // ---- actions

  async #copyCurl() {
    if (await copyText(this.exchange.curl)) this.ctx.toast("Copied as curl. The key is a placeholder.");
    else this.ctx.toast("The browser did not allow copying.");
  }

  async #copyBytes() {
    const side = this.columns.active === "client" ? "client" : "up";
    const range = this.resolved?.bytes[side];
    if (!range) return this.ctx.toast("Nothing is selected.");
    const bytes = await this.columns.views[side].bytes.read(...range);
    const copied = await copyText(new TextDecoder().decode(bytes));
    return this.ctx.toast(copied ? `Copied ${count(bytes.length, "byte")}.` : "The browser did not allow copying.");
  }

  async #post(path, body) {
    try {
      return await this.ctx.api.post(this.path + path, body, { signal: this.stopped.signal });
    } catch (error) {
      if (error.name !== "AbortError") this.ctx.toast(error.message);
      return null;
    }
  }

  async #makeCase() {
    const made = await this.#post("/case", {});
    if (made) this.ctx.toast(["Case written to ", h("code", {}, made.folder), "."]);
  }

  async #replay() {
    const result = await this.#post("/replay", { split: 0 });
    if (!result) return;
    const { differences } = result;
    if (!differences.length && result.client_byte === null) {
      this.replayed.hidden = true;
      this.ctx.toast(`Replayed: no difference in ${count(result.events, "event")}.`);
      return;
    }
    const words = differences.length ? `${count(differences.length, "event")} ${differences.length === 1 ? "differs" : "differ"}` : `the client’s bytes differ from byte ${number(result.client_byte)}`;
    this.ctx.toast(`Replayed: ${words}.`, { label: "Show", run: () => this.#showReplay(result) });
  }

  #showReplay({ events, differences, client_byte: byte, reason }) {
    const close = h("button", { class: "btn quiet", type: "button", onclick: () => (this.replayed.hidden = true) }, "Close");
    const parts = differences.map(({ index, recorded, replayed }) => [
      h("h3", { class: "event-title" }, h("button", { type: "button", onclick: () => this.#showEvent(index) }, `Event ${number(index + 1)}`), recorded ? null : " only in the replay", replayed ? null : " only in the recording"),
      diffView(diffValues(recorded, replayed), { label: `Event ${index + 1}` }),
    ]);
    const bytes = byte === null ? null : h("p", { class: "none" }, `The client’s bytes differ from byte ${number(byte)}.`);
    replace(this.replayed, panel("h-rp", "Replay with today’s code", [h("span", { class: "hint" }, `${count(differences.length, "difference")} in ${count(events, "event")}; recorded left, today right`), grow(), close], reason ? h("p", { class: "none" }, reason) : null, bytes, parts));
    this.replayed.hidden = false;
    this.replayed.querySelector("h2").tabIndex = -1;
    this.replayed.querySelector("h2").focus();
  }

  #showEvent(index) {
    const row = this.map.rowOfEvent(index);
    if (row >= 0) this.select({ kind: "row", column: "ev", row });
  }

  // ---- a response that still streams

  #refreshSoon() {
    if (this.refresh || !this.exchange) return;
    const pause = Math.max(LEAST_REFRESH_MS, 5 * (this.fetchMs ?? 0));
    this.refresh = setTimeout(async () => {
      const started = performance.now();
      try {
        this.#update(await this.#fetch());
        if (this.selection) this.#showSelection("all");
      } catch (error) {
        if (error.name !== "AbortError" && error.status === undefined) throw error;
      } finally {
        this.fetchMs = performance.now() - started;
        this.refresh = 0;
      }
    }, pause);
  }

  // ---- keys

  #keys() {
    const ready = (run) => (event) => (this.columns ? run(event) : false);
    return {
      j: ready((event) => this.#moveRow(event, 1)),
      k: ready((event) => this.#moveRow(event, -1)),
      h: ready(() => this.#moveColumn(-1)),
      l: ready(() => this.#moveColumn(1)),
      Enter: ready((event) => (isIn(event, "[role=listbox]") ? this.columns.current.pick() : false)),
      x: ready(() => this.#nextProblem(1)),
      X: ready(() => this.#nextProblem(-1)),
      "[": () => this.#neighbour(-1),
      "]": () => this.#neighbour(1),
      r: ready(() => this.#setRaw(!this.columns.raw)),
      c: ready(() => void this.#copyBytes()),
      Escape: () => (this.selection ? this.select(null) : this.ctx.navigate(LIST)),
    };
  }

  #moveRow(event, step) {
    if (event.key.startsWith("Arrow") && !isIn(event, "[role=listbox]")) return false;
    const isNew = !isIn(event, "[role=listbox]");
    this.columns.current.focus();
    if (isNew) this.columns.element.scrollIntoView({ block: "nearest" });
    this.columns.current.move(isNew ? 0 : step);
    return true;
  }

  #moveColumn(step) {
    this.columns.move(step);
    this.columns.current.focus();
  }

  #neighbour(step) {
    const id = this.ctx.neighbour(this.ctx.id, step);
    if (id) this.ctx.navigate(exchangePath(id));
    else this.ctx.toast(step < 0 ? "This is the first exchange of the list." : "This is the last exchange of the list.");
  }

  /** Selects the next call or event that has a problem. */
  #nextProblem(step) {
    const stops = problems(this.map);
    if (!stops.length) return this.ctx.toast("No problem in this response.");
    this.problem = (this.problem < 0 && step < 0 ? stops.length : this.problem) + step;
    this.problem = (this.problem + stops.length) % stops.length;
    return this.select(stops[this.problem]);
  }

  destroy() {
    this.stopped.abort();
    clearTimeout(this.refresh);
    this.unsubscribe();
    this.unwatch();
    this.timeline?.destroy();
    this.columns?.destroy();
  }
}

/** Calls that are not complete, were repaired or do not match their schema, and events with a level; in order. */
function problems(map) {
  const { calls } = map.exchange;
  const stops = [];
  for (const [index, block] of map.blocks.entries()) {
    const call = block.call === null ? null : calls[block.call];
    if (call && (call.state !== "complete" || call.repaired || call.schema?.ok === false)) stops.push([block.ev?.[0] ?? 0, { kind: "block", block: index }]);
  }
  for (const [row, { level }] of map.rows.ev.entries()) {
    if ((level === "warn" || level === "error") && map.blockOf("ev", row) === null) stops.push([row, { kind: "row", column: "ev", row }]);
  }
  return stops.sort((a, b) => a[0] - b[0]).map(([, selection]) => selection);
}

function selectionLine({ title, rows, bytes }) {
  const span = (range) => `${number(range[0])}–${number(range[1])}`;
  const numbers = (list, word) => (list.length > 1 ? `${word}s ${number(list[0] + 1)}–${number(list.at(-1) + 1)}` : `${word} ${number(list[0] + 1)}`);
  return [
    h("b", {}, title),
    bytes.up ? h("span", {}, `upstream bytes ${span(bytes.up)}${rows.up.length ? ` in ${numbers(rows.up, "chunk")}` : ""}`) : null,
    rows.ev.length ? h("span", {}, numbers(rows.ev, "event")) : null,
    bytes.client ? h("span", {}, `client bytes ${span(bytes.client)}`) : null,
  ];
}

function panel(id, title, head, ...content) {
  return h("section", { class: "panel", "aria-labelledby": id }, h("header", {}, h("h2", { id }, title), head), content);
}

function grow() {
  return h("span", { class: "grow" });
}

/** Buttons of which one is pressed. */
function segments(label, choices, onChoose) {
  const buttons = choices.map(([value, text]) => h("button", { type: "button", "aria-pressed": "false", onclick: () => onChoose(value) }, text));
  return {
    element: h("div", { class: "seg", role: "group", "aria-label": label }, buttons),
    set: (value) => buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(choices[index][0] === value))),
  };
}

function isIn(event, selector) {
  return Boolean(event.target.closest?.(selector));
}

/** Copies a text. Pages that were not loaded over HTTPS or from loopback have no clipboard API. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = h("textarea", { class: "sr", "aria-hidden": "true" });
    field.value = text;
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    return copied;
  }
}
