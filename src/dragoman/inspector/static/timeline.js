// The timeline of one exchange: a lane for the attempts, the upstream's bytes, reasoning, text, each tool call and
// the client's bytes. Bytes are one path per lane; over 2,000 events they are binned, over 20,000 drawn on a canvas.

import { count, duration, h, seconds, svg } from "./dom.js";

const LANE = 24;
const TOP = 20;
const NARROW = 560;
const BIN_OVER = 2000;
const CANVAS_OVER = 20000;
const BIN_PX = 2;
const TICK_PX = { least: 4, most: 16 };
const STEPS = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000, 300000, 600000, 1800000, 3600000];
const FILLS = { reasoning: "f-reason", text: "f-text", call: "f-call" };
const LEVEL_FILLS = { failed: "f-error", error: "f-error", waiting: "f-data2", wait: "f-data2", plain: "f-data" };

/** The picture and its keys. It is one stop of the focus: arrows move, Enter selects. */
export class Timeline {
  /** @param {{onBlock: (block: number) => void, onRow: (row: number) => void}} options */
  constructor(options) {
    this.options = options;
    this.map = null;
    this.cursor = null;
    this.resolved = null;
    this.names = h("ol", { class: "names", "aria-hidden": "true" });
    this.picture = svg("svg", { role: "img" });
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.area = h("div", { class: "area-box", tabindex: "0", role: "group", "aria-label": "Timeline: arrow keys move between lanes and events, Enter selects" }, this.canvas, this.picture);
    this.element = h("div", { class: "tl" }, this.names, this.area);
    this.area.addEventListener("click", (event) => this.#click(event));
    this.area.addEventListener("keydown", (event) => this.#key(event));
    this.area.addEventListener("blur", () => this.#setCursor(null));
    this.names.addEventListener("click", (event) => this.#pickLane([...this.names.children].indexOf(event.target.closest("li")), 0));
    this.resize = new ResizeObserver(() => this.draw());
    this.resize.observe(this.area);
    this.theme = new MutationObserver(() => this.draw());
    this.theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  }

  /** @param {import("./links.js").LinkMap} map */
  setMap(map) {
    this.map = map;
    this.timeline = map.exchange.timeline;
    this.lanes = lanesWithBlocks(map);
    this.end = Math.max(1, this.timeline.end_ms) * 1.035;
    this.names.replaceChildren(...this.lanes.map((lane) => h("li", { class: "trim", title: lane.label }, lane.label)));
    this.picture.setAttribute("aria-label", sentence(map.exchange, this.lanes));
    this.draw();
  }

  /** @param {import("./links.js").Resolved | null} resolved */
  select(resolved) {
    this.resolved = resolved;
    this.draw();
  }

  /** Draws everything for the width that the picture has now. */
  draw() {
    const width = this.area.clientWidth;
    if (!this.map || !width) return;
    this.width = width;
    this.height = TOP + this.lanes.length * LANE;
    this.picture.setAttribute("height", this.height + 2);
    const selected = this.#selectedLane();
    for (const [index, name] of [...this.names.children].entries()) name.classList.toggle("on", index === selected);
    this.picture.replaceChildren(...this.#grid(), ...this.#band(selected), ...this.#stalls(), ...this.#lanes(), ...this.#outline(selected), ...this.#first(), ...this.#cursorShape());
    this.#drawCanvas();
  }

  x(ms) {
    return Math.round((ms / this.end) * this.width * 10) / 10;
  }

  #grid() {
    const step = STEPS.find((each) => this.x(each) >= (this.width < NARROW ? 36 : 56)) ?? STEPS.at(-1);
    const shapes = [];
    const [left, right] = this.#firstLabel().above ?? [1, 0];
    for (let ms = 0; ms <= this.end; ms += step) {
      shapes.push(line("l-grid", this.x(ms), this.x(ms), 18, this.height));
      const covered = this.x(ms) + 40 > left && this.x(ms) < right;
      if (this.x(ms) < this.width - 24 && !covered) shapes.push(text("", this.x(ms) + 3, 12, tickLabel(ms, step)));
    }
    for (let lane = 0; lane <= this.lanes.length; lane += 1) shapes.push(line("l-grid", 0, this.width, TOP + lane * LANE, TOP + lane * LANE));
    return shapes;
  }

  #band(lane) {
    return lane < 0 ? [] : [svg("rect", { class: "band-sel", x: 0, y: TOP + lane * LANE + 0.5, width: this.width, height: LANE - 1 })];
  }

  #stalls() {
    const top = TOP + Math.max(0, this.#laneOf("upstream")) * LANE;
    return this.timeline.stalls.flatMap(([from, to]) => {
      const [a, b] = [this.x(from), this.x(to)];
      const label = b - a > 58 ? [text("t-warn b", (a + b) / 2, top + 16, `stall ${duration(to - from)}`, "middle")] : [];
      return [svg("rect", { class: "f-softwarn", x: a, y: top + 0.5, width: Math.max(1, b - a), height: this.height - top - 1 }), line("l-stall", a, a, top, this.height), line("l-stall", b, b, top, this.height), ...label];
    });
  }

  #laneOf(kind) {
    return this.lanes.findIndex((lane) => lane.kind === kind);
  }

  #lanes() {
    return this.lanes.flatMap((lane, index) => {
      const y = TOP + index * LANE;
      if (lane.kind === "upstream" || lane.kind === "client") return this.#ticks(lane, y);
      if (lane.kind === "attempts") return this.#attempts(lane, y);
      return this.#spans(lane, y);
    });
  }

  #attempts(lane, y) {
    const bars = lane.spans.map((span) => svg("rect", { class: LEVEL_FILLS[span.level] ?? "f-data", x: this.x(span.from), y: y + 8, width: Math.max(2, this.x(span.to) - this.x(span.from)), height: 8, rx: 1 }));
    return this.width < NARROW ? bars : [...bars, ...lane.spans.flatMap((span, index) => this.#attemptLabel(lane, index, y))];
  }

  /** Why an attempt failed: behind its bar if there is room before the next one, else before it, else on the next one. */
  #attemptLabel({ spans }, index, y) {
    const span = spans[index];
    if (LEVEL_FILLS[span.level] !== "f-error" || !span.label) return [];
    const room = span.label.length * 6.5 + 10;
    const next = spans[index + 1] ? this.x(spans[index + 1].from) : this.width;
    if (this.x(span.to) + room <= next) return [text("t-error", this.x(span.to) + 5, y + 16, span.label)];
    const before = spans[index - 1] ? this.x(spans[index - 1].to) : 0;
    if (this.x(span.from) - room >= before) return [text("t-error", this.x(span.from) - 5, y + 16, span.label, "end")];
    return [text("t-error halo", this.x(span.to) + 5, y + 16, span.label)];
  }

  #spans(lane, y) {
    const shapes = [];
    for (const [index, span] of lane.spans.entries()) {
      const [a, b] = [this.x(span.from), this.x(span.to)];
      const before = lane.spans[index - 1];
      if (before && lane.kind === "call") shapes.push(line("l-base", this.x(before.to), a, y + 12, y + 12));
      shapes.push(svg("rect", { class: FILLS[lane.kind], x: a, y: y + 6, width: Math.max(2, b - a), height: 12, rx: 1 }));
    }
    if (lane.kind === "call" && lane.spans.length) shapes.push(...this.#callEnd(lane, y));
    return shapes;
  }

  #callEnd(lane, y) {
    const call = this.map.exchange.calls[lane.call];
    if (!call || call.state === "complete") return this.#stateLabel(lane, y, "complete", "t-on");
    const end = this.x(lane.spans.at(-1).to);
    return [svg("rect", { class: "f-error", x: end, y: y + 4, width: 3, height: 16 }), ...this.#stateLabel(lane, y, call.state, "t-error")];
  }

  /** The state beside a call's bar: left of it if there is room, else right. A complete call is named when it is selected. */
  #stateLabel(lane, y, word, colour) {
    if (this.width < NARROW || (word === "complete" && this.resolved?.call !== lane.call)) return [];
    const [start, end] = [this.x(lane.spans[0].from), this.x(lane.spans.at(-1).to)];
    if (word !== "complete" && start > 70) return [text(`${colour} b`, start - 6, y + 16, word, "end")];
    return end < this.width - 70 ? [text(`${colour} b`, end + 8, y + 16, word)] : [text(`${colour} b`, start - 8, y + 16, word, "end")];
  }

  #ticks(lane, y) {
    if (lane.ticks.length > CANVAS_OVER) return [];
    const most = this.#mostBytes(lane);
    const bars = lane.ticks.length > BIN_OVER ? this.#bins(lane) : lane.ticks.map(([at, size]) => [this.x(at), size]);
    const d = bars.map(([x, size]) => `M${x} ${y + LANE - 4}v-${tickHeight(size, most)}h2V${y + LANE - 4}z`).join("");
    return [svg("path", { class: "f-data", d })];
  }

  #bins(lane) {
    const bins = new Map();
    for (const [at, size] of lane.ticks) {
      const bin = Math.floor(this.x(at) / BIN_PX) * BIN_PX;
      bins.set(bin, Math.max(bins.get(bin) ?? 0, size));
    }
    return [...bins];
  }

  #mostBytes(lane) {
    return lane.ticks.reduce((most, [, size]) => Math.max(most, size), 1);
  }

  /** The byte lanes of a very long stream. The colour is read from the style sheet, so that both themes fit. */
  #drawCanvas() {
    const lanes = [...this.lanes.entries()].filter(([, lane]) => (lane.ticks?.length ?? 0) > CANVAS_OVER);
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = this.width * scale;
    this.canvas.height = this.height * scale;
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    context.fillStyle = getComputedStyle(this.canvas).color;
    for (const [index, lane] of lanes) {
      const most = this.#mostBytes(lane);
      for (const [x, size] of this.#bins(lane)) {
        const tall = tickHeight(size, most);
        context.fillRect(x, TOP + index * LANE + LANE - 4 - tall, BIN_PX, tall);
      }
    }
  }

  #first() {
    const { first_ms: first } = this.timeline;
    if (first === null || first === undefined) return [];
    const x = this.x(first);
    const y = TOP + Math.max(0, this.#laneOf("upstream")) * LANE + 16;
    const { label, above } = this.#firstLabel();
    const place = above ? text("t-ink b", x + 6, 12, label) : text("t-ink b", x - 6, y, label, "end");
    return [line("l-first", x, x, 16, this.height), place];
  }

  /** What the first event is called, and the place above the lanes that this needs: none if there is room left of its line. */
  #firstLabel() {
    const { first_ms: first } = this.timeline;
    if (first === null || first === undefined) return { label: "" };
    const label = this.width < NARROW ? seconds(first) : `first event ${seconds(first)}`;
    const room = label.length * 6.5;
    const x = this.x(first);
    return x > room ? { label } : { label, above: [x, x + 6 + room] };
  }

  #selectedLane() {
    if (!this.resolved || this.resolved.block === null) return -1;
    return this.lanes.findIndex((lane) => lane.blocks?.includes(this.resolved.block));
  }

  /** A frame around what is selected: in the lane of its block, else in the lane of the upstream's bytes. */
  #outline(lane) {
    const range = this.#timeOf(this.resolved?.rows.up ?? []);
    if (!range) return [];
    const y = TOP + (lane < 0 ? Math.max(0, this.#laneOf("upstream")) : lane) * LANE;
    const [a, b] = [this.x(range[0]) - 3, this.x(range[1]) + 3];
    return [svg("rect", { class: "outline-sel", x: a, y: y + 3.5, width: Math.max(6, b - a), height: 17, rx: 2 })];
  }

  #timeOf(rows) {
    const all = this.map.rows.up;
    return rows.length ? [all[rows[0]].at, all[rows.at(-1)].at] : null;
  }

  // ---- pointer and keys

  #click(event) {
    const box = this.picture.getBoundingClientRect();
    const lane = Math.floor((event.clientY - box.top - TOP) / LANE);
    this.#pickLane(lane, ((event.clientX - box.left) / this.width) * this.end);
  }

  /** Selects what a lane shows at a time: the nearest block, or the nearest upstream row. */
  #pickLane(index, ms) {
    const lane = this.lanes[index];
    if (!lane) return;
    if (lane.blocks?.length) this.options.onBlock(nearest(lane.blocks, (block) => this.#timeOf(this.map.resolve({ kind: "block", block }).rows.up), ms));
    else if (lane.kind === "upstream" || lane.kind === "client") {
      const row = nearest(this.map.rows.up.keys(), (each) => [this.map.rows.up[each].at, this.map.rows.up[each].at], ms);
      if (row !== undefined) this.options.onRow(row);
    }
  }

  /** The places that arrows stop at in a lane: times in milliseconds. */
  #stops(lane) {
    if (lane.ticks?.length) return lane.ticks.map(([at]) => at);
    return (lane.spans ?? []).map((span) => span.from);
  }

  #key(event) {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (event.key === "Enter" && this.cursor) {
      const { lane, stop } = this.cursor;
      this.#pickLane(lane, this.#stops(this.lanes[lane])[stop] ?? 0);
    } else if (steps[event.key]) this.#step(...steps[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #step(lanes, stops) {
    const { lane, stop } = this.cursor ?? { lane: 0, stop: 0 };
    const next = Math.min(Math.max(0, lane + lanes), this.lanes.length - 1);
    const last = Math.max(0, this.#stops(this.lanes[next]).length - 1);
    this.#setCursor({ lane: next, stop: Math.min(Math.max(0, next === lane ? stop + stops : 0), last) });
  }

  #setCursor(cursor) {
    this.cursor = cursor;
    this.draw();
  }

  #cursorShape() {
    if (!this.cursor) return [];
    const { lane, stop } = this.cursor;
    const y = TOP + lane * LANE;
    const x = this.x(this.#stops(this.lanes[lane])[stop] ?? 0);
    return [svg("rect", { class: "cursor", x: 0.5, y: y + 1, width: this.width - 1, height: LANE - 2, rx: 2 }), svg("path", { class: "f-accent", d: `M${x - 4} ${y + 1}h10l-5 6z` })];
  }

  destroy() {
    this.resize.disconnect();
    this.theme.disconnect();
  }
}

/** Which blocks each lane shows: a call lane its call, the lanes of reasoning and text all blocks of their kind. */
function lanesWithBlocks(map) {
  let calls = 0;
  return map.exchange.timeline.lanes.map((lane) => {
    if (lane.kind === "call") {
      const call = calls;
      calls += 1;
      const block = map.blockOfCall(call);
      return { ...lane, call, blocks: block === null ? [] : [block] };
    }
    const blocks = [...map.blocks.keys()].filter((block) => map.blocks[block].kind === lane.kind);
    return { ...lane, blocks: FILLS[lane.kind] ? blocks : null };
  });
}

function nearest(items, rangeOf, ms) {
  let best;
  let least = Infinity;
  for (const item of items) {
    const range = rangeOf(item);
    if (!range) continue;
    const distance = ms < range[0] ? range[0] - ms : ms > range[1] ? ms - range[1] : 0;
    if (distance < least) [best, least] = [item, distance];
  }
  return best;
}

function tickHeight(size, most) {
  return Math.round(TICK_PX.least + (TICK_PX.most - TICK_PX.least) * Math.sqrt(size / most));
}

function tickLabel(ms, step) {
  if (step < 1000) return step < 100 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
  return ms < 60000 || ms % 60000 ? `${ms / 1000} s` : `${ms / 60000} min`;
}

/** The timeline in words, for readers who do not see it. */
function sentence(exchange, lanes) {
  const { timeline, attempts, calls } = exchange;
  const parts = [`Timeline, ${(timeline.end_ms / 1000).toFixed(2)} seconds.`];
  for (const [index, attempt] of attempts.entries()) if (!attempt.answered) parts.push(`Attempt ${index + 1} failed${attempt.status ? ` with ${attempt.status}` : ""}.`);
  if (timeline.first_ms !== null) parts.push(`First event at ${seconds(timeline.first_ms)}.`);
  for (const [from, to] of timeline.stalls) parts.push(`Stall of ${duration(to - from)} from ${seconds(from)}.`);
  for (const call of calls) parts.push(`${call.name} call ${call.state}${call.to_ms === null || call.to_ms === undefined ? "" : ` at ${seconds(call.to_ms)}`}.`);
  parts.push(`${count(lanes.length, "lane")}.`);
  return parts.join(" ");
}

function line(kind, x1, x2, y1, y2) {
  return svg("line", { class: kind, x1, x2, y1, y2 });
}

function text(kind, x, y, content, anchor) {
  return svg("text", { class: kind, x, y, "text-anchor": anchor }, content);
}
