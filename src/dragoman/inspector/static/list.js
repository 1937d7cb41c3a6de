// The list of exchanges: newest first, filtered, live. Only rows near the window have elements, and only pages
// that were looked at are loaded.

import { count, h, number, replace } from "./dom.js";
import { filterBar, filtersOf, filterWords } from "./filters.js";
import { showOverview } from "./overview.js";
import { exchangePath, fillRow, headRow, makeRow, scalesOf } from "./row.js";
import { showFailure, skeleton, state } from "./states.js";
import { virtualList } from "./virtual.js";

const FIRST_PAGE = 50;
const PAGE = 200;
const ROW = 32;
const CARD = 56;
const CARD_WITH_PROBLEMS = 80;
const NEW_MS = 500; // at most two questions a second for new rows
const MOST_TRIES = 10; // for one new row
const OVERVIEW_MS = 10_000;
const phone = matchMedia("(max-width: 860px)");

/**
 * @param {HTMLElement} root
 * @param {import("./main.js").Context} ctx
 * @returns {import("./main.js").View}
 */
export function mount(root, ctx) {
  let rows = []; // sparse: a row that is not loaded yet is undefined
  let places = new Map(); // id -> index
  let anchor = { index: 0, cursor: null }; // the cursor leads to the row with this index
  let matched = 0;
  let total = 0;
  let search = null; // how far the search of the content has come
  let scales = scalesOf([]);
  let pending = []; // new rows that wait
  let overflow = false; // more rows wait than were asked for
  let selected = ctx.params.get("sel") ?? "";
  let loading = new AbortController();
  const pages = new Set(); // first indexes of pages on their way, relative to the anchor
  let newTimer = 0;
  let newest = ""; // the id of a new row that is not in the list yet
  let tries = 0; // left for it
  let overviewTimer = 0;

  const stats = h("div", { class: "stats", role: "group", "aria-label": "Figures" });
  const notice = h("div");
  const bar = filterBar(ctx, { onchange: load, onnew: showNew });
  const body = h("div", { role: "rowgroup" });
  const table = h("div", { class: "list", role: "table", "aria-label": "Exchanges, newest first" }, headRow(), body);
  const message = h("div");
  const foot = h("p", { class: "foot" });
  const download = h("a", { download: "recordings.tar", hidden: true }, "Download these recordings");
  const virtual = virtualList({
    body,
    height: (index) => (phone.matches ? (rows[index]?.problems.length ? CARD_WITH_PROBLEMS : CARD) : ROW),
    make: makeRow,
    fill: (element, index) => fillRow(element, rows[index], { index, selected: Boolean(rows[index]) && rows[index].id === selected, scales }),
    onrange: loadMissing,
  });

  root.append(h("h1", { class: "sr" }, "Exchanges"), notice, stats, bar.element, table, message, foot);

  function reindex() {
    places = new Map();
    rows.forEach((row, place) => places.set(row.id, place));
  }

  function draw() {
    table.setAttribute("aria-rowcount", rows.length + 1);
    table.hidden = !rows.length;
    virtual.setCount(rows.length);
    bar.setCount(matched, total, search);
    bar.setNew(pending.length ? number(pending.length) + (overflow ? "+" : "") : "");
  }

  async function load() {
    loading.abort();
    loading = new AbortController();
    const { signal } = loading;
    if (!rows.length) replace(message, skeleton("Loading exchanges"));
    loadOverview();
    describe();
    try {
      const query = filtersOf(ctx.params);
      query.set("limit", FIRST_PAGE);
      let answer = await ctx.api.get("/exchanges", query, { signal });
      window.scrollTo(0, 0);
      show(answer);
      // A search of the content takes several questions: each continues where the one before it ended.
      while (answer.search && answer.search.searched < answer.search.of) {
        answer = await ctx.api.get("/exchanges", query, { signal });
        search = answer.search;
        if (answer.matched !== matched) show(answer);
        else draw();
      }
      showMessage();
    } catch (error) {
      if (error.name === "AbortError") return;
      rows = [];
      matched = 0;
      draw();
      showFailure(message, error, ctx, load);
    }
  }

  function show(answer) {
    ({ matched, total, search } = answer);
    scales = scalesOf(answer.rows);
    anchor = { index: answer.rows.length, cursor: answer.cursor };
    rows = answer.rows;
    rows.length = Math.max(matched, rows.length);
    pages.clear();
    pending = [];
    reindex();
    draw();
    showMessage();
  }

  function showMessage() {
    download.hidden = !rows.some((row) => row?.recorded);
    if (!rows.length && search && search.searched < search.of) return replace(message, skeleton("Searching recordings"));
    if (rows.length) return replace(message);
    const words = filterWords(ctx.params);
    if (!words.length) {
      const example = h("pre", { class: "json" });
      ctx.me.then((me) => replace(example, `curl -s ${me?.address ?? location.host}/v1/chat/completions \\\n  -d '{"model": "sim/kimi-k2", "messages": […]}'`));
      return replace(message, state("No exchanges yet", ["Send a request to this gateway and it appears here.", example]));
    }
    const list = words.flatMap((word, place) => [place === 0 ? "" : place === words.length - 1 ? " and " : ", ", h("code", {}, word)]);
    const action = h("button", { class: "btn", type: "button", onclick: () => bar.clear() }, "Clear filters");
    return replace(message, state("No exchange matches", [[`${count(total, "exchange is", "exchanges are")} hidden by `, list, "."]], { action }));
  }

  // Requests the pages in the range that are not loaded yet. A page is found by its distance from the anchor, so
  // that a jump to the middle costs one request.
  function loadMissing(first, after) {
    for (let place = Math.max(first, anchor.index); place < after; place += 1) {
      if (rows[place] || !anchor.cursor) continue;
      const skip = Math.floor((place - anchor.index) / PAGE) * PAGE;
      if (!pages.has(skip)) loadPage(skip);
    }
  }

  async function loadPage(skip) {
    pages.add(skip);
    const query = filtersOf(ctx.params);
    query.set("cursor", anchor.cursor);
    query.set("skip", skip);
    query.set("limit", PAGE);
    try {
      const answer = await ctx.api.get("/exchanges", query, { signal: loading.signal });
      answer.rows.forEach((row, offset) => {
        const place = anchor.index + skip + offset;
        if (place >= rows.length) return;
        rows[place] = row;
        places.set(row.id, place);
      });
      if (phone.matches) virtual.measure();
      else virtual.draw();
    } catch (error) {
      // Rows that are still grey are asked for again with the next scroll.
      if (error.name !== "AbortError") setTimeout(() => pages.delete(skip), 1000);
    }
  }

  async function loadOverview() {
    clearTimeout(overviewTimer);
    const answer = await ctx.api.get("/overview", filtersOf(ctx.params)).catch(() => null);
    if (!root.isConnected || !bar.element.isConnected) return;
    if (answer && !document.hidden) showOverview(stats, answer, (from, to) => pickTime(from, to));
    overviewTimer = setTimeout(loadOverview, OVERVIEW_MS);
  }

  function pickTime(from, to) {
    ctx.setParams({ since: from.toFixed(0), until: to.toFixed(0), sel: null });
    bar.sync();
    load();
  }

  // New rows may enter only while they move nothing that is being read.
  function mayEnter() {
    return window.scrollY === 0 && !selected && !body.matches(":hover") && !body.contains(document.activeElement);
  }

  function takeLive(changed) {
    let unknown = "";
    let taller = false;
    for (const row of changed) {
      const place = places.get(row.id);
      if (place === undefined) unknown = row.id;
      else {
        taller ||= rows[place].problems.length > 0 !== row.problems.length > 0;
        rows[place] = row;
        virtual.drawRow(place);
      }
    }
    if (taller && phone.matches) virtual.measure();
    if (!unknown) return;
    newest = unknown;
    tries = MOST_TRIES;
    if (!newTimer) newTimer = setTimeout(findNew, NEW_MS);
  }

  // The gateway decides which new rows match: it also searches the text. Its processes share only the recordings: the
  // one that answers may see a row later than the one whose events this page reads, and is then asked again.
  async function findNew(limit = FIRST_PAGE) {
    newTimer = 0;
    const { signal } = loading;
    const query = filtersOf(ctx.params);
    query.set("limit", limit);
    if (newest) query.set("newest", newest);
    const answer = await ctx.api.get("/exchanges", query, { signal }).catch(() => null);
    if (!answer || signal.aborted) return;
    if (!answer.behind) newest = "";
    else if (tries-- > 0 && !newTimer) newTimer = setTimeout(findNew, NEW_MS);
    ({ matched, total } = answer);
    pending = [];
    // An older row that is unknown is not new: its page is not loaded yet.
    const oldest = anchor.cursor ? rows[anchor.index - 1].time : 0;
    for (const row of answer.rows) {
      const place = places.get(row.id);
      if (place !== undefined) rows[place] = row;
      else if (row.time > oldest) pending.push(row);
    }
    overflow = pending.length === answer.rows.length && pending.length < answer.matched && rows.length > 0;
    if (pending.length && mayEnter()) enter();
    else draw();
  }

  function enter() {
    if (overflow || !rows.length) return load();
    const newest = [...pending].sort((a, b) => b.time - a.time);
    rows.unshift(...newest); // keeps the holes of rows that are not loaded
    anchor.index += newest.length;
    pending = [];
    reindex();
    draw();
    return showMessage();
  }

  function showNew() {
    if (!pending.length) return;
    select(-1);
    window.scrollTo(0, 0);
    enter();
  }

  function select(place) {
    const before = places.get(selected);
    selected = rows[place]?.id ?? "";
    ctx.setParams({ sel: selected });
    if (before !== undefined) virtual.drawRow(before);
    if (!selected) {
      if (body.contains(document.activeElement)) document.activeElement.blur();
      return;
    }
    virtual.reveal(place, { top: bar.element.getBoundingClientRect().bottom + (phone.matches ? 0 : 30), bottom: 8 });
    virtual.drawRow(place);
    virtual.element(place)?.querySelector(".cover").focus({ preventScroll: true });
  }

  // The row to start from: the selected one, or the first one below the filter bar.
  function current() {
    return places.get(selected) ?? -1;
  }

  function step(by) {
    const place = current();
    const next = place < 0 ? firstVisible() : Math.min(Math.max(place + by, 0), rows.length - 1);
    if (rows[next]) select(next);
  }

  function firstVisible() {
    const top = bar.element.getBoundingClientRect().bottom + (phone.matches ? 0 : 30) - body.getBoundingClientRect().top;
    return top <= 0 ? 0 : Math.min(rows.length - 1, virtual.indexAt(top + ROW - 1));
  }

  function stepProblem(by) {
    for (let place = current() + by; place >= 0 && place < rows.length; place += by) {
      if (rows[place]?.problems.length) return select(place);
      if (!rows[place]) break;
    }
    return ctx.toast(by > 0 ? "No further problem below." : "No further problem above.");
  }

  async function describe() {
    download.href = `${ctx.api.address("/recordings")}?${filtersOf(ctx.params)}`;
    const me = await ctx.me;
    if (!me) return;
    const off = me.recording === "off";
    replace(
      foot,
      h("span", {}, off ? "Recording is off: exchanges are kept in memory only." : `Recording: ${me.recording}.`, me.keep && !off ? ` Kept for ${me.keep}.` : ""),
      h("span", {}, "Secrets are redacted before they are written."),
      download,
    );
    const limited = me.all === false && h("p", { class: "notice" }, h("b", {}, "This key cannot see other exchanges. "), "It sees only its own. Ask for a key with the right ", h("code", {}, "inspect"), ".");
    replace(notice, limited);
  }

  function restore({ scroll, ...kept }) {
    ({ rows, anchor, matched, total, scales } = kept);
    reindex();
    draw();
    window.scrollTo(0, scroll);
    virtual.draw();
    loadOverview();
    describe();
    findNew(PAGE);
  }

  // The address keeps the row that was opened, so that Back selects it.
  body.addEventListener("click", (event) => {
    const link = event.target.closest(".cover");
    if (link && !event.metaKey && !event.ctrlKey && !event.shiftKey) ctx.setParams({ sel: link.dataset.id });
  });
  const relayout = () => virtual.measure();
  phone.addEventListener("change", relayout);
  const stopRows = ctx.live.subscribe(takeLive);
  const stopState = ctx.live.watch((_, what) => what === "back" && findNew(PAGE));
  if (ctx.restored?.query === filtersOf(ctx.params).toString()) restore(ctx.restored);
  else load();

  return {
    keys: {
      j: () => step(1),
      k: () => step(-1),
      x: () => stepProblem(1),
      X: () => stepProblem(-1),
      n: showNew,
      f: () => bar.open(),
      "/": () => bar.focusSearch(),
      Enter: () => (selected ? ctx.navigate(exchangePath(selected)) : false),
      Escape: () => select(-1),
    },
    snapshot: () => ({ query: filtersOf(ctx.params).toString(), rows, anchor, matched, total, scales, scroll: window.scrollY }),
    unmount() {
      ctx.setOrder(rows.filter(Boolean).map((row) => row.id));
      loading.abort();
      clearTimeout(newTimer);
      clearTimeout(overviewTimer);
      phone.removeEventListener("change", relayout);
      stopRows();
      stopState();
      bar.destroy();
      virtual.destroy();
    },
  };
}
