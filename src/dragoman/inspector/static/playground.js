// The playground: a pasted text or stream, parsed by the gateway at a chunk size that the reader chooses.
// The text is sent to be parsed and is not stored; it is never a part of the address.

import { byteLength } from "./bytes.js";
import { callBody, callChips, prose } from "./cards.js";
import { count, dialect, h, icon, number, replace, svg, visible } from "./dom.js";
import { jsonNodes } from "./json.js";
import { inputPieces } from "./playground_input.js";
import { virtualList } from "./virtual.js";

const SIZES = 64;
const FIRST_SIZE = 12;
const PAUSE_MS = 150;
const EVENT_PX = 24;
const MOST_EVENTS_PX = 20 * EVENT_PX;
const FILE_MARK = "dragoman_playground";
const CALL_KINDS = new Set(["marker", "call start", "arguments", "call end"]);
const EXAMPLE = 'I look at the tests first.\n<|tool_calls_section_begin|><|tool_call_begin|>functions.Bash:0<|tool_call_argument_begin|>{"command": "pytest -q tests/test_dates.py", "timeout": 120000}<|tool_call_end|><|tool_calls_section_end|>';
const EXAMPLE_TOOL = { name: "Bash", input_schema: { type: "object", required: ["command"], properties: { command: { type: "string" }, timeout: { type: "integer" } } } };
const KINDS = [["text", "Text"], ["stream", "Stream"]];
const CHANNELS = [["content", "Text"], ["reasoning", "Reasoning"]];

/**
 * @param {HTMLElement} root
 * @param {any} ctx
 */
export function mount(root, ctx) {
  const view = new Playground(root, ctx);
  return { unmount: () => view.destroy(), keys: view.keys, snapshot: () => view.settings() };
}

class Playground {
  constructor(root, ctx) {
    this.root = root;
    this.ctx = ctx;
    this.answer = null;
    this.selected = null;
    this.shown = "calls";
    this.keys = { Escape: () => (this.selected ? this.#selectEvents(null) : ctx.navigate("/inspector/exchanges")) };
    this.#build();
    this.#choices();
    this.#apply({ text: EXAMPLE, tools: JSON.stringify(EXAMPLE_TOOL, null, 2), ...this.#fromAddress(), ...ctx.restored });
  }

  #fromAddress() {
    const { params } = this.ctx;
    const known = ["kind", "dialect", "family", "channel", "size"].filter((name) => params.get(name));
    return Object.fromEntries(known.map((name) => [name, params.get(name)]));
  }

  // ---- parts

  #build() {
    this.kind = picker("Input", KINDS, () => this.#changed());
    this.dialect = picker("Dialect", [["chat", "Chat"]], () => this.#changed());
    this.family = picker("Family", [["auto", "detect"]], () => this.#changed());
    this.channel = picker("Channel", CHANNELS, () => this.#changed());
    this.size = h("input", { type: "range", min: 1, max: SIZES, value: FIRST_SIZE, "aria-label": "Chunk size in bytes", oninput: () => this.#changed() });
    this.sizeText = h("output");
    this.file = h("input", { type: "file", class: "sr", tabindex: "-1", "aria-label": "File to open", onchange: () => this.#open() });
    const bar = h("div", { class: "pgbar" }, this.kind.element, this.dialect.element, this.family.element, this.channel.element,
      h("label", { class: "slider" }, h("span", {}, "Chunk size"), this.size, this.sizeText), h("span", { class: "grow" }),
      this.file, button("Open file", () => this.file.click(), "btn", "open"), button("Save as file", () => this.#save(), "btn", "download"));
    const left = h("div", { class: "stack" }, this.#inputPanel(), this.#sizesPanel(), this.#toolPanel());
    const right = h("div", { class: "stack" }, this.#resultPanel(), this.#eventsPanel());
    replace(this.root, h("h1", { class: "sr" }, "Playground"), bar, h("div", { class: "pg" }, left, right),
      h("p", { class: "foot" }, "The text is parsed by this gateway and is not stored. To share it, save it as a file."));
  }

  #inputPanel() {
    this.inputHint = h("span", { class: "hint" });
    this.picture = h("pre", { "aria-hidden": "true" });
    this.text = h("textarea", { "aria-label": "Stream or text", spellcheck: "false", autocapitalize: "off", autocomplete: "off", oninput: () => this.#edited() });
    this.hidden = h("p", { class: "none", hidden: true });
    return panel("h-in", "Input", [this.inputHint, h("span", { class: "grow" }), button("Example", () => this.#apply({ kind: "text", text: EXAMPLE, tools: JSON.stringify(EXAMPLE_TOOL, null, 2) })), button("Clear", () => this.#apply({ text: "" }))],
      h("div", { class: "paste" }, this.picture, this.text), this.hidden);
  }

  #sizesPanel() {
    this.sizesTitle = h("h2", { id: "h-sz" });
    this.sizesHint = h("span", { class: "hint" });
    this.strip = svg("svg", { role: "img", "aria-label": "Result of each chunk size", viewBox: `0 0 ${SIZES * 10} 18`, preserveAspectRatio: "none", onclick: (event) => this.#clickStrip(event) });
    this.differing = h("p", { class: "differing" });
    return h("section", { class: "panel", "aria-labelledby": "h-sz" }, h("header", {}, this.sizesTitle, h("span", { class: "grow" }), this.sizesHint), h("div", { class: "sizes" }, this.strip, this.differing));
  }

  #toolPanel() {
    this.tools = h("textarea", { class: "json flat", rows: 11, spellcheck: "false", "aria-label": "Tool schema", oninput: () => this.#changed() });
    this.toolProblem = h("p", { class: "check c-error", role: "alert", hidden: true });
    const element = panel("h-ts", "Tool schema", [h("span", { class: "hint" }, "optional; arguments are checked against it"), h("span", { class: "grow" }), button("Clear", () => this.#apply({ tools: "" }))], h("div", { class: "card" }, this.tools, this.toolProblem));
    element.classList.add("schema");
    return element;
  }

  #resultPanel() {
    this.resultHint = h("span", { class: "hint" });
    this.result = h("div", { "aria-live": "polite" });
    this.viewSwitch = h("div", { class: "seg", role: "group", "aria-label": "Show the result as" });
    return panel("h-rs", "Result", [this.resultHint, h("span", { class: "grow" }), this.viewSwitch], this.result);
  }

  #eventsPanel() {
    this.eventCount = h("span", { class: "hint" });
    this.eventBody = h("ol", { role: "presentation" });
    this.eventScroller = h("div", { class: "evts", role: "listbox", tabindex: "0", "aria-label": "Events", "aria-multiselectable": "true", onkeydown: (event) => this.#eventKey(event) }, this.eventBody);
    this.eventBody.addEventListener("click", (event) => this.#pickEvent(Number(event.target.closest("li")?.dataset.index ?? -1)));
    this.list = virtualList({ body: this.eventBody, scroller: this.eventScroller, height: EVENT_PX, make: () => h("li", { class: "evt", role: "option" }), fill: (li, index) => this.#fillEvent(li, index) });
    return panel("h-ev", "Events", [this.eventCount], this.eventScroller);
  }

  async #choices() {
    const me = await this.ctx.me;
    if (!me) return;
    this.family.setChoices([["auto", "detect"], ...me.families.filter((name) => name !== "auto").map((name) => [name, name])]);
    this.dialect.setChoices(me.dialects.map((name) => [name, dialect(name)]));
    this.#showDetected();
  }

  // ---- settings

  /** What a saved file holds. */
  settings() {
    const { kind, dialect: dialect_, family, channel, size, text, tools } = this;
    return { kind: kind.value, dialect: dialect_.value, family: family.value, channel: channel.value, size: Number(size.value), text: text.value, tools: tools.value };
  }

  #apply(settings) {
    for (const name of ["kind", "dialect", "family", "channel"]) if (settings[name]) this[name].value = settings[name];
    const size = Number(settings.size);
    if (size >= 1 && size <= SIZES) this.size.value = String(size);
    if (typeof settings.text === "string") this.text.value = settings.text;
    if (typeof settings.tools === "string") this.tools.value = settings.tools;
    this.#edited();
  }

  #edited() {
    this.answer = null;
    this.#draw();
    this.#changed();
  }

  #changed() {
    const { kind, dialect: name, family, channel, size } = this.settings();
    this.sizeText.value = count(size, "byte");
    this.channel.element.hidden = kind === "stream";
    this.ctx.setParams({ kind: kind === "text" ? null : kind, dialect: name, family: family === "auto" ? null : family, channel: channel === "content" ? null : channel, size: String(size) });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#parse(), PAUSE_MS);
  }

  /** The declared tools, or undefined where there are none or the text is not JSON. */
  #declaredTools() {
    const text = this.tools.value.trim();
    this.toolProblem.hidden = true;
    if (!text) return undefined;
    try {
      const value = JSON.parse(text);
      return Array.isArray(value) ? value : [value];
    } catch (error) {
      replace(this.toolProblem, `This is not JSON: ${error.message}`);
      this.toolProblem.hidden = false;
      return undefined;
    }
  }

  async #parse() {
    this.asked?.abort();
    this.asked = new AbortController();
    const { tools: _, ...settings } = this.settings();
    try {
      this.answer = await this.ctx.api.post("/playground", { ...settings, tools: this.#declaredTools() }, { signal: this.asked.signal });
      this.#show();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.status === undefined) throw error;
      this.resultHint.textContent = "";
      replace(this.result, h("p", { class: "none c-error" }, error.message));
    }
  }

  // ---- what came back

  #show() {
    this.selected = null;
    this.#draw();
    this.#showDetected();
    this.#showSizes();
    this.#showResult(this.shown);
    this.eventCount.textContent = number(this.answer.events.length);
    this.eventScroller.style.height = `${Math.min(MOST_EVENTS_PX, this.answer.events.length * EVENT_PX)}px`;
    this.list.setCount(this.answer.events.length);
  }

  #showDetected() {
    const found = this.answer?.family;
    this.family.setLabel("auto", found ? `${found} (detected)` : "detect");
    this.family.element.classList.toggle("on", Boolean(found) || this.family.value !== "auto");
  }

  /** The input with its cuts, markers and the selected part. */
  #draw() {
    const text = this.text.value;
    const { pieces, invisible } = inputPieces(text, this.answer, this.selected && this.#selectedRanges());
    replace(this.picture, pieces, "\n");
    const cuts = this.answer?.cuts.length ?? 0;
    this.inputHint.textContent = text ? `${count(byteLength(text), "byte")}${this.answer ? `, ${count(cuts + 1, "chunk")}; each line marks a cut` : ""}` : "Paste a text or a stream";
    this.hidden.hidden = !invisible.length;
    replace(this.hidden, invisible.length ? ["Characters that cannot be seen: ", invisible.map((each) => [visible(each), " "])] : null);
  }

  #showSizes() {
    const { sizes } = this.answer;
    const differing = sizes.flatMap((same, index) => (same === false ? [index + 1] : []));
    const chosen = Number(this.size.value);
    this.sizesTitle.textContent = differing.length ? `${count(differing.length, "chunk size")} ${differing.length === 1 ? "gives" : "give"} another result` : "Every chunk size gives the same result";
    this.sizesHint.textContent = `${number(sizes.filter((same) => same !== null).length)} of ${SIZES} checked`;
    this.strip.setAttribute("aria-label", `Chunk sizes 1 to ${sizes.length}, ${differing.length ? `${differing.join(", ")} differ` : "all equal"}. ${chosen} is chosen.`);
    this.strip.replaceChildren(...sizes.map((same, index) => {
      const isChosen = index + 1 === chosen;
      const colour = same === false ? "f-error" : isChosen ? "f-accent" : same ? "f-call" : "f-data2";
      const rect = svg("rect", { class: colour, x: index * 10, y: isChosen ? 0 : 4, width: 7.8, height: isChosen ? 18 : 10, rx: 1 });
      rect.append(svg("title", {}, `${index + 1}${same === false ? ": another result" : ""}`));
      return rect;
    }));
    replace(this.differing, differing.length ? ["Another result at ", differing.map((size) => h("button", { type: "button", onclick: () => this.#setSize(size) }, size))] : null);
  }

  #clickStrip(event) {
    const box = this.strip.getBoundingClientRect();
    this.#setSize(Math.min(SIZES, Math.max(1, Math.ceil(((event.clientX - box.left) / box.width) * SIZES))));
  }

  #setSize(size) {
    this.size.value = String(size);
    this.#changed();
  }

  #showResult(name) {
    const { answer } = this;
    if (!answer) return;
    this.shown = answer.outputs[name] === undefined ? "calls" : name;
    replace(this.viewSwitch, ["calls", ...Object.keys(answer.outputs)].map((each) => h("button", { type: "button", "aria-pressed": String(each === this.shown), onclick: () => this.#showResult(each) }, each === "calls" ? "Calls" : dialect(each))));
    this.resultHint.textContent = `${count(answer.calls.length, "call")}, ${count(byteLength(answer.text), "byte")} of text`;
    if (this.shown === "calls") replace(this.result, problemRows(answer.problems), answer.calls.map(callCard), leftOver(answer));
    else replace(this.result, h("div", { class: "card" }, h("pre", { class: "json flat" }, jsonNodes(answer.outputs[this.shown]))));
  }

  // ---- events

  #fillEvent(li, index) {
    const event = this.answer.events[index];
    const on = this.selected !== null && index >= this.selected[0] && index <= this.selected[1];
    li.className = `evt${on ? " sel" : ""}`;
    li.id = `event-${index}`;
    li.dataset.index = index;
    li.setAttribute("aria-selected", String(on));
    li.setAttribute("aria-posinset", index + 1);
    li.setAttribute("aria-setsize", this.answer.events.length);
    const colour = event.level === "error" ? "c-error" : event.level === "warn" ? "c-warn" : CALL_KINDS.has(event.kind) ? "ch-call" : event.kind === "reasoning" ? "ch-reason" : "mid";
    li.replaceChildren(h("span", { class: "n" }, index + 1), h("span", { class: "at" }, event.chunk === undefined ? "" : `chunk ${event.chunk}`), h("span", { class: colour }, event.kind), h("span", { class: "trim", title: event.text }, event.text.replaceAll("\n", "\\n")));
  }

  /** A click selects the run of events of one kind, a second click the event itself. */
  #pickEvent(index) {
    const events = this.answer?.events ?? [];
    if (!events[index]) return;
    this.cursor = index;
    const isWithin = this.selected && index >= this.selected[0] && index <= this.selected[1];
    let [first, last] = [index, index];
    if (!isWithin) {
      while (events[first - 1]?.kind === events[index].kind) first -= 1;
      while (events[last + 1]?.kind === events[index].kind) last += 1;
    }
    this.#selectEvents([first, last]);
  }

  #selectEvents(range) {
    this.selected = range;
    this.list.draw();
    this.#draw();
  }

  #selectedRanges() {
    const [first, last] = this.selected;
    return this.answer.events.slice(first, last + 1).filter((event) => event.from !== undefined && event.from !== null).map((event) => [event.from, event.to]);
  }

  #eventKey(event) {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    const last = (this.answer?.events.length ?? 0) - 1;
    if (step && last >= 0) {
      this.cursor = Math.min(Math.max(0, (this.cursor ?? -step) + step), last);
      this.#selectEvents([this.cursor, this.cursor]);
      this.list.reveal(this.cursor);
      this.eventScroller.setAttribute("aria-activedescendant", `event-${this.cursor}`);
    } else if (event.key === "Enter" && this.cursor !== undefined) this.#pickEvent(this.cursor);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // ---- files

  #save() {
    const file = JSON.stringify({ [FILE_MARK]: 1, ...this.settings() }, null, 2);
    const address = URL.createObjectURL(new Blob([file], { type: "application/json" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = "playground.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  async #open() {
    const [file] = this.file.files;
    if (!file) return;
    const text = await file.text();
    this.file.value = "";
    const saved = savedSettings(text);
    this.#apply(saved ?? { text, kind: /^(event|data|id|retry):/m.test(text) ? "stream" : "text" });
    this.ctx.toast(["Opened ", h("code", {}, file.name), "."]);
  }

  destroy() {
    clearTimeout(this.timer);
    this.asked?.abort();
    this.list.destroy();
  }
}

/** The settings of a file that the playground saved, or null: any other file is the text itself. */
function savedSettings(text) {
  try {
    const value = JSON.parse(text);
    return value && value[FILE_MARK] ? value : null;
  } catch {
    return null;
  }
}

function callCard(call) {
  return h("article", { class: "card" },
    h("div", { class: "title" }, h("b", { class: "name" }, call.name || "(no name)"), callChips({ ...call, repaired: false }), h("span", { class: "grow" }), call.upstream_id ? h("code", { class: "dim" }, call.upstream_id) : null),
    callBody(call, { matches: "Matches the tool schema" }));
}

function leftOver(answer) {
  const rows = [];
  const add = (term, value) => rows.push(h("dt", {}, term), h("dd", {}, value));
  if (answer.text) add("Text left", h("code", {}, JSON.stringify(answer.text)));
  if (answer.reasoning) add("Reasoning", h("code", {}, JSON.stringify(answer.reasoning)));
  if (answer.held) add("Held back", `${count(answer.held, "byte")} at most`);
  if (!answer.calls.length) rows.unshift(h("dt", {}, "Calls"), h("dd", {}, "none"));
  return rows.length ? h("dl", { class: "kv card" }, rows) : null;
}

function problemRows(problems) {
  return problems.map((problem) => {
    return h("div", { class: "warnrow" }, h("span", { class: "c-warn" }, icon("warning")), h("p", {}, prose(problem.text), " ", h("code", {}, problem.code)));
  });
}

function panel(id, title, head, ...content) {
  return h("section", { class: "panel", "aria-labelledby": id }, h("header", {}, h("h2", { id }, title), head), content);
}

function button(label, onclick, kind = "btn quiet", picture = null) {
  return h("button", { class: kind, type: "button", onclick }, picture && icon(picture), label);
}

/** A labelled choice of one value. */
function picker(label, choices, onChange) {
  const select = h("select", { onchange: onChange });
  const element = h("label", { class: "pick choice" }, h("span", { class: "k" }, label), select, icon("chevron", 10));
  const setChoices = (list) => {
    const chosen = wanted ?? select.value;
    select.replaceChildren(...list.map(([value, text]) => h("option", { value }, text)));
    select.value = list.some(([value]) => value === chosen) ? chosen : list[0][0];
  };
  let wanted;
  setChoices(choices);
  return {
    element,
    setChoices,
    setLabel(value, text) {
      const option = [...select.options].find((each) => each.value === value);
      if (option) option.textContent = text;
    },
    get value() {
      return select.value;
    },
    set value(value) {
      wanted = value; // its choice may arrive later
      select.value = value;
      if (!select.value) select.selectedIndex = 0;
    },
  };
}
