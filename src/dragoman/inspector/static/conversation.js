// Conversations: the list of them, and one of them turn by turn.

import { drawCache } from "./cache.js";
import { clock, count, day, h, icon, money, number, percent, replace } from "./dom.js";
import { exchangePath } from "./row.js";
import { showFailure, skeleton, state } from "./states.js";
import { foldedTurns, hasProblem, turnElement } from "./turn.js";

const FOLD = 3; // fewer turns in a row are not folded
const PAGE = 50;
const LIVE_MS = 1000;
const TYPING_MS = 200;
const wide = matchMedia("(min-width: 1280px)");

const conversationPath = (id) => `/inspector/conversations/${encodeURIComponent(id)}`;

function railRow(row, currentId) {
  const color = { warn: "c-warn", failed: "c-error", error: "c-error" }[row.level] ?? "";
  const flag = row.flag || (row.state === "running" ? "running" : "");
  return h(
    "a",
    { class: "ses", href: conversationPath(row.id), "aria-current": row.id === currentId ? "true" : null, data: { id: row.id } },
    h("span", { class: "trim", title: row.title }, row.title || "Without a title"),
    h(
      "span",
      { class: "m" },
      row.client && h("span", {}, row.client),
      h("span", {}, count(row.turns, "turn")),
      h("span", { class: "grow" }),
      flag && h("span", { class: row.flag ? color : "" }, flag),
      h("span", {}, day(row.time) || clock(row.time).slice(0, 5)),
    ),
  );
}

/**
 * The list of conversations, with a search field; pages are loaded when its end is reached.
 * @param {import("./main.js").Context} ctx
 * @param {{current: function(): string, onload: function(Object[]): void}} options
 */
function conversationRail(ctx, { current, onload }) {
  let rows = [];
  let cursor = null;
  let typing = 0;
  let asked = 0;
  const list = h("div", { class: "sessions" });
  const end = h("div", { class: "rail-end" });
  const search = h("input", {
    type: "search",
    placeholder: "Search conversations…",
    autocomplete: "off",
    value: ctx.params.get("text") ?? "",
    oninput: () => {
      clearTimeout(typing);
      typing = setTimeout(() => {
        ctx.setParams({ text: search.value.trim() });
        load();
      }, TYPING_MS);
    },
  });
  const element = h("nav", { class: "rail", "aria-label": "Conversations" }, h("label", { class: "search" }, icon("search"), h("span", { class: "sr" }, "Search conversations"), search), list, end);

  function draw() {
    const focused = document.activeElement?.closest?.(".ses")?.dataset.id;
    const empty = ctx.params.get("text") ? "No conversation matches." : "No conversations yet.";
    replace(list, rows.map((row) => railRow(row, current())), !rows.length && h("p", { class: "none dim" }, empty));
    if (focused) [...list.children].find((one) => one.dataset.id === focused)?.focus({ preventScroll: true });
  }

  async function load({ more = false } = {}) {
    const turn = (asked += 1);
    const query = { limit: PAGE };
    if (ctx.params.get("text")) query.text = ctx.params.get("text");
    if (more) query.cursor = cursor;
    try {
      const answer = await ctx.api.get("/conversations", query);
      if (turn !== asked) return;
      rows = more ? [...rows, ...answer.rows] : answer.rows;
      cursor = answer.cursor;
      draw();
      onload(rows);
    } catch (error) {
      if (turn === asked && !rows.length) showFailure(list, error, ctx, load);
    }
  }

  const watcher = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && cursor && load({ more: true }));
  watcher.observe(end);
  load();
  return {
    element,
    draw,
    load,
    focusSearch: () => search.select(),
    destroy() {
      asked += 1;
      clearTimeout(typing);
      watcher.disconnect();
    },
  };
}

// Groups turns: a problem, the turn before it and the last turn are always shown; other runs are folded.
function groups(turns, openTurn) {
  const shown = turns.map((turn, index) => index === turns.length - 1 || turn.turn === openTurn || turn.side.length > 0 || hasProblem(turn) || (turns[index + 1] && hasProblem(turns[index + 1])));
  const result = [];
  turns.forEach((turn, index) => {
    if (shown[index] || !result.length || result.at(-1).shown) result.push({ shown: shown[index], turns: [turn] });
    else result.at(-1).turns.push(turn);
  });
  return result.flatMap((group) => (group.shown || group.turns.length >= FOLD ? [group] : group.turns.map((turn) => ({ shown: true, turns: [turn] }))));
}

function facts({ row, ...all }) {
  const fact = (name, value, small, style) => h("div", { class: style }, h("dt", {}, name), h("dd", { title: String(value) }, value, small && [" ", h("small", {}, small)]));
  const calls = [all.repaired && `${number(all.repaired)} repaired`, all.repeated && `${number(all.repeated)} repeated`].filter(Boolean).join(" · ");
  return h(
    "dl",
    { class: "facts" },
    fact("Client", row.client || "–"),
    fact("Model", all.model || "–", "", "wide"),
    fact("Turns", number(row.turns), all.side_requests ? `+ ${count(all.side_requests, "side request")}` : ""),
    fact("Tool calls", number(all.calls), calls),
    fact("Input", number(all.tokens_in), all.tokens_in ? `${percent(all.tokens_cached / all.tokens_in)} cached` : ""),
    fact("Output", number(all.tokens_out)),
    fact("Cost", money(all.cost)),
  );
}

/**
 * @param {HTMLElement} root
 * @param {import("./main.js").Context} ctx
 * @returns {import("./main.js").View}
 */
export function mount(root, ctx) {
  let id = ctx.id;
  let shownTurns = new Map(); // number of a turn -> [its JSON, its element]
  let conversation = null;
  let turn = Number(ctx.params.get("turn")) || 0;
  let liveTimer = 0;
  let gone = false;

  const picture = h("div", { class: "cachep" });
  const head = h("div", { class: "head1" });
  const list = h("ol", { class: "stack turns-list" });
  const legend = (style, text) => h("span", {}, h("i", { class: style }), text);
  const cache = h(
    "section",
    { class: "panel", "aria-labelledby": "cache-title" },
    h(
      "header",
      {},
      h("h2", { id: "cache-title" }, "Prompt cache by turn"),
      h("span", { class: "grow" }),
      h("div", { class: "legend" }, legend("b-data2", "Read from cache"), legend("b-data", "New"), legend("b-warn", "Was cached before, read again")),
    ),
    picture,
  );
  const content = h("div", { class: "content" });
  const rail = conversationRail(ctx, {
    current: () => id,
    onload: (rows) => {
      // Without an id the newest conversation is shown beside the list, where there is space for both.
      if (!id && wide.matches && rows.length) {
        id = rows[0].id;
        rail.draw();
        load();
      } else if (!id) replace(content, heading(), rows.length ? null : noConversations());
    },
  });
  root.append(h("div", { class: ctx.id ? "conv" : "conv index" }, rail.element, content));

  function heading() {
    return h("h1", { class: "sr" }, "Conversations");
  }

  function noConversations() {
    return state("No conversations yet", ["Exchanges with a shared history appear here as one conversation."]);
  }

  async function load() {
    replace(content, skeleton("Loading the conversation"));
    try {
      const answer = await ctx.api.get(`/conversations/${encodeURIComponent(id)}`);
      if (gone) return;
      conversation = answer;
      draw();
    } catch (error) {
      if (!gone) showFailure(content, error, ctx, load);
    }
  }

  function drawHead() {
    ctx.title(conversation.row.title || "Conversation");
    replace(
      head,
      h("p", { class: "crumb" }, h("a", { href: "/inspector/conversations" }, "Conversations")),
      h("div", { class: "line" }, h("h1", { class: "trim", title: conversation.row.title }, conversation.row.title || "Without a title"), h("span", { class: "grow" }), h("a", { class: "btn", href: ctx.api.address(`/recordings?conversation=${encodeURIComponent(id)}`), download: "recordings.tar", "aria-label": "Download all recordings" }, icon("download"), h("span", { class: "lbl" }, "Download all recordings"), h("span", { class: "sht", "aria-hidden": "true" }, "Files"))),
      facts(conversation),
    );
    drawCache(picture, conversation.turns, goTo);
  }

  function element(one, index) {
    const made = turnElement(one, conversation.turns[index - 1]?.turn ?? one.turn - 1);
    shownTurns.set(one.turn, [JSON.stringify(one), made]);
    return made;
  }

  function draw() {
    replace(content, head, h("div", { class: "turns" }, cache, list));
    drawHead();
    shownTurns = new Map();
    const { turns } = conversation;
    replace(
      list,
      groups(turns, turn).map((group) => {
        if (group.shown) return element(group.turns[0], turns.indexOf(group.turns[0]));
        const folded = foldedTurns(group.turns, () => unfold(folded, group.turns));
        group.turns.forEach((one) => shownTurns.set(one.turn, [JSON.stringify(one), folded]));
        return folded;
      }),
    );
    if (ctx.restored?.scroll) window.scrollTo(0, ctx.restored.scroll);
    else if (turn) goTo(turn);
  }

  function unfold(folded, turns) {
    const elements = turns.map((one) => element(one, conversation.turns.indexOf(one)));
    folded.replaceWith(...elements);
    elements[0].focus({ preventScroll: true });
  }

  function goTo(number) {
    const entry = shownTurns.get(number);
    if (!entry) return;
    turn = number;
    ctx.setParams({ turn: String(number) });
    entry[1].querySelector(".foldturn")?.click();
    const [, place] = shownTurns.get(number);
    place.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    place.focus({ preventScroll: true });
    list.querySelectorAll(".turn.here").forEach((one) => one.classList.remove("here"));
    place.classList.add("here");
  }

  function step(by, wanted = () => true) {
    const turns = conversation?.turns ?? [];
    let index = turns.findIndex((one) => one.turn === turn);
    if (index < 0 && by < 0) index = turns.length;
    for (index += by; index >= 0 && index < turns.length; index += by) if (wanted(turns[index])) return goTo(turns[index].turn);
    return undefined;
  }

  // A running conversation grows at its end; turns that did not change keep their elements.
  async function refresh() {
    liveTimer = 0;
    rail.load();
    if (!conversation) return;
    const answer = await ctx.api.get(`/conversations/${encodeURIComponent(id)}`).catch(() => null);
    if (!answer || gone) return;
    conversation = answer;
    drawHead();
    conversation.turns.forEach((one, index) => {
      const entry = shownTurns.get(one.turn);
      if (!entry) list.append(element(one, index));
      else if (entry[0] !== JSON.stringify(one) && !entry[1].querySelector(".foldturn")) entry[1].replaceWith(element(one, index));
    });
  }

  const soon = () => {
    if (!liveTimer) liveTimer = setTimeout(refresh, LIVE_MS);
  };
  const stopRows = ctx.live.subscribe((rows) => rows.some((row) => row.conversation) && soon());
  const stopState = ctx.live.watch((_, what) => what === "back" && soon());
  let width = 0;
  const resized = new ResizeObserver(() => {
    if (!conversation || picture.clientWidth === width) return;
    width = picture.clientWidth;
    drawCache(picture, conversation.turns, goTo);
  });
  resized.observe(picture);
  if (id) load();

  return {
    keys: {
      j: () => step(1),
      k: () => step(-1),
      "]": () => step(1),
      "[": () => step(-1),
      x: () => step(1, hasProblem),
      X: () => step(-1, hasProblem),
      "/": () => rail.focusSearch(),
      Enter: () => {
        const current = conversation?.turns.find((one) => one.turn === turn);
        return current ? ctx.navigate(exchangePath(current.exchange)) : false;
      },
    },
    snapshot: () => ({ scroll: window.scrollY }),
    unmount() {
      gone = true;
      clearTimeout(liveTimer);
      stopRows();
      stopState();
      resized.disconnect();
      rail.destroy();
    },
  };
}
