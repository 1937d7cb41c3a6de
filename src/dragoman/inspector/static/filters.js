// The filter bar of the list. Its state is the query of the address: filters combine with AND, the values of one
// filter with OR.

import { clock, h, icon, number, replace } from "./dom.js";
import { showDialog } from "./help.js";
import { picker } from "./picker.js";

const PICKERS = [
  { key: "model", name: "Model", pattern: true },
  { key: "route", name: "Route", pattern: true },
  { key: "upstream", name: "Upstream", pattern: true },
  { key: "status", name: "Status" },
  { key: "problem", name: "Problem" },
  { key: "family", name: "Family" },
  { key: "client", name: "Client" },
];
const TIMES = [
  { value: "", label: "All" },
  { value: "5m", label: "Last 5 min" },
  { value: "30m", label: "Last 30 min" },
  { value: "2h", label: "Last 2 hours" },
  { value: "24h", label: "Last 24 hours" },
  { value: "7d", label: "Last 7 days" },
];
const NAMES = ["text", "model", "route", "upstream", "status", "problem", "family", "client", "since", "until"];
const TYPING_MS = 200;
const ANNOUNCE_MS = 2000;
const FACETS_MS = 5000;

/**
 * The filters of an address, without everything else in its query.
 * @param {URLSearchParams} params
 * @returns {URLSearchParams}
 */
export function filtersOf(params) {
  return new URLSearchParams([...params].filter(([name, value]) => NAMES.includes(name) && value));
}

function timeLabel(params) {
  const since = params.get("since");
  const until = params.get("until");
  const known = TIMES.find(({ value }) => value === since);
  if (known && !until) return known.label;
  const text = (value) => (Number(value) ? clock(Number(value)).slice(0, 5) : value);
  return `${since ? text(since) : "…"}–${until ? text(until) : "now"}`;
}

/**
 * The filters in words, such as `status: failed`.
 * @param {URLSearchParams} params
 * @returns {string[]}
 */
export function filterWords(params) {
  const words = [...filtersOf(params)].filter(([name]) => name !== "since" && name !== "until").map(([name, value]) => `${name}: ${value}`);
  return params.get("since") || params.get("until") ? [...words, `time: ${timeLabel(params)}`] : words;
}

/**
 * @typedef {Object} FilterBar
 * @property {HTMLElement} element
 * @property {function(): void} sync shows the filters of the address
 * @property {function(): void} focusSearch
 * @property {function(): void} open the first picker, or the dialog on a phone
 * @property {function(): void} clear
 * @property {function(number, number, ?{searched: number, of: number}): void} setCount the matching exchanges, all of them, and how far a search has come
 * @property {function(string): void} setNew the number of exchanges that wait; empty if none does
 * @property {function(): void} destroy
 */

/**
 * @param {Object} ctx
 * @param {{onchange: function(): void, onnew: function(): void}} handlers
 * @returns {FilterBar}
 */
export function filterBar(ctx, { onchange, onnew }) {
  let facets = null;
  let facetsAt = 0;
  let typing = 0;
  let announcing = 0;
  let announcedAt = 0;

  function change(changes) {
    ctx.setParams({ ...changes, sel: null });
    sync();
    onchange();
  }

  async function loadFacets() {
    if (!facets || Date.now() - facetsAt > FACETS_MS) {
      facets = await ctx.api.get("/facets").catch(() => ({}));
      facetsAt = Date.now();
    }
    return facets;
  }

  const search = h("input", {
    type: "search",
    placeholder: "Search text, ids, tools…",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => {
      clearTimeout(typing);
      typing = setTimeout(() => change({ text: search.value.trim() }), TYPING_MS);
    },
  });
  const pickers = PICKERS.map(({ key, name, pattern }) => ({
    key,
    control: picker({
      name,
      pattern,
      several: true,
      choices: async () => (await loadFacets())[key] ?? [],
      onchange: (values) => change({ [key]: values }),
    }),
  }));
  const time = picker({ name: "Time", choices: () => TIMES, onchange: ([value]) => change({ since: value ?? null, until: null }) });
  const clearButton = h("button", { class: "btn quiet clear", type: "button", onclick: () => clear() }, "Clear");
  const active = h("span", { class: "chip accent" });
  const more = h("button", { class: "btn more", type: "button", "aria-haspopup": "dialog", onclick: () => openSheet() }, "Filters ", active);
  const fresh = h("button", { class: "newpill", type: "button", hidden: true, onclick: onnew });
  const count = h("span", { class: "count" });
  const spoken = h("span", { class: "sr", "aria-live": "polite" });
  const element = h(
    "form",
    { class: "filters", role: "search", "aria-label": "Filter exchanges", onsubmit: (event) => event.preventDefault() },
    h("label", { class: "search" }, icon("search"), h("span", { class: "sr" }, "Search"), search, h("kbd", { "aria-hidden": "true" }, "/")),
    pickers.map(({ control }) => control.element),
    time.element,
    clearButton,
    more,
    h("span", { class: "tail" }, fresh, count),
    spoken,
  );

  function sync() {
    const { params } = ctx;
    if (document.activeElement !== search) search.value = params.get("text") ?? "";
    pickers.forEach(({ key, control }) => control.set(params.getAll(key)));
    time.set(params.get("since") || params.get("until") ? [timeLabel(params)] : []);
    const used = new Set([...filtersOf(params).keys()].map((name) => (name === "until" ? "since" : name)));
    clearButton.hidden = !used.size;
    used.delete("text");
    active.textContent = String(used.size);
    active.hidden = !used.size;
  }

  function clear() {
    search.value = "";
    change(Object.fromEntries(NAMES.map((name) => [name, null])));
  }

  // On a phone the pickers are the groups of one dialog.
  async function openSheet() {
    const values = await loadFacets();
    const groups = [
      ...PICKERS.map(({ key, name }) => ({ key, name, choices: values[key] ?? [], several: true })),
      { key: "since", name: "Time", choices: TIMES, several: false },
    ];
    const chosen = (key) => (key === "since" ? [ctx.params.get("since") ?? ""] : ctx.params.getAll(key));
    const toggle = (group, value) => {
      const now = chosen(group.key);
      const next = now.includes(value) ? now.filter((one) => one !== value) : [...now, value];
      change(group.several ? { [group.key]: next } : { since: value, until: null });
      drawSheet();
    };
    const body = h("div");
    function drawSheet() {
      const focused = document.activeElement?.dataset?.choice;
      replace(
        body,
        groups.map((group) =>
          h(
            "div",
            { class: "group", role: "group", "aria-label": group.name },
            h("h3", {}, group.name),
            h(
              "div",
              { class: "options" },
              group.choices.map((choice) => {
                const on = chosen(group.key).includes(choice.value);
                return h(
                  "button",
                  { class: on ? "pick on" : "pick", type: "button", "aria-pressed": String(on), data: { choice: `${group.key} ${choice.value}` }, onclick: () => toggle(group, choice.value) },
                  h("span", { class: "trim" }, choice.label ?? choice.value),
                  choice.count !== undefined && h("span", { class: "k" }, number(choice.count)),
                );
              }),
              !group.choices.length && h("span", { class: "dim" }, "–"),
            ),
          ),
        ),
      );
      if (focused) [...body.querySelectorAll("[data-choice]")].find((one) => one.dataset.choice === focused)?.focus();
    }
    drawSheet();
    const result = h("span", { class: "count grow" });
    const dialog = h(
      "dialog",
      { class: "dialog filter-sheet", "aria-labelledby": "sheet-title" },
      h("header", {}, h("h2", { id: "sheet-title" }, "Filters"), h("span", { class: "grow" }), h("button", { class: "btn quiet", type: "button", onclick: () => (clear(), drawSheet()) }, "Clear")),
      body,
      h("footer", {}, result, h("button", { class: "btn main", type: "button", onclick: () => dialog.close() }, "Show")),
    );
    const copyCount = new MutationObserver(() => replace(result, count.textContent));
    copyCount.observe(count, { childList: true, subtree: true, characterData: true });
    dialog.addEventListener("close", () => copyCount.disconnect());
    replace(result, count.textContent);
    showDialog(dialog, more);
  }

  // The count is read out at most every two seconds.
  function announce() {
    if (announcing) return;
    const wait = Math.max(0, announcedAt + ANNOUNCE_MS - Date.now());
    announcing = setTimeout(() => {
      announcing = 0;
      announcedAt = Date.now();
      if (spoken.textContent !== count.textContent) spoken.textContent = count.textContent;
    }, wait);
  }

  const height = new ResizeObserver(() => document.documentElement.style.setProperty("--h-filters", `${element.offsetHeight}px`));
  height.observe(element);
  sync();

  return {
    element,
    sync,
    clear,
    focusSearch: () => search.select(),
    open: () => (more.offsetParent ? openSheet() : pickers[0].control.open()),
    setCount(matched, total, progress) {
      const searching = progress && progress.searched < progress.of && ` · searched ${number(progress.searched)} of ${number(progress.of)} recordings`;
      if (matched === total) replace(count, h("b", {}, number(total)), total === 1 ? " exchange" : " exchanges", searching);
      else replace(count, h("b", {}, number(matched)), ` of ${number(total)} exchanges`, searching);
      announce();
    },
    setNew(text) {
      fresh.hidden = !text;
      if (text) replace(fresh, h("span", { "aria-hidden": "true" }, "↑"), ` ${text} new`);
    },
    destroy() {
      clearTimeout(typing);
      clearTimeout(announcing);
      height.disconnect();
    },
  };
}
