// The shell of the page: which view is shown for which address, the theme, the keyboard, the live connection.
//
// A view is a module with `mount(root, ctx)`. It fills the empty element `root` and returns
// `{unmount(), keys, snapshot()}`: `keys` maps a key to a function, `snapshot` returns what the view wants to
// get back as `ctx.restored` when the reader comes back to this entry of the history.

import * as api from "./api.js";
import { openHelp, singleKeys } from "./help.js";
import { connectLive } from "./live.js";
import { toast, watchConnection } from "./notices.js";
import { showFailure } from "./states.js";
import { replace, setText } from "./dom.js";

/**
 * @typedef {Object} View
 * @property {function(): void} unmount
 * @property {Object<string, function(KeyboardEvent): (boolean|void)>} [keys] a function that returns false leaves
 *   the key to the browser
 * @property {function(): *} [snapshot]
 */

/**
 * @typedef {Object} Context what a view gets from the shell
 * @property {typeof api} api
 * @property {string} path such as `/inspector/exchanges/req_1`
 * @property {string} id the last part of the path, decoded; empty for a list
 * @property {URLSearchParams} params
 * @property {function(Object<string, string|string[]|null>): void} setParams changes the query of the address
 *   without a new entry in the history; null and empty values are removed
 * @property {function(string): void} navigate opens another address of the page
 * @property {function(string): void} title sets the title of the page
 * @property {function(string|Array, {label: string, run: function(): void}=): void} toast
 * @property {import("./live.js").Live} live
 * @property {Promise<Object|null>} me the answer of /me; null if it failed
 * @property {function(string, number): (string|null)} neighbour the exchange before (-1) or after (1) another one
 *   in the list that was shown last
 * @property {function(string[]): void} setOrder keeps the ids of the list for `neighbour`
 * @property {function(): void} signedIn is called when a session began
 * @property {*} restored
 */

const LIST = "/inspector/exchanges";
const VIEWS = [
  { pattern: /^\/inspector(?:\/exchanges)?\/?$/, tab: 0, title: "Exchanges", load: () => import("./list.js") },
  { pattern: /^\/inspector\/exchanges\/([^/]+)$/, tab: 0, title: "Exchange", load: () => import("./exchange.js") },
  { pattern: /^\/inspector\/conversations(?:\/([^/]+))?\/?$/, tab: 1, title: "Conversations", load: () => import("./conversation.js") },
  { pattern: /^\/inspector\/playground\/?$/, tab: 2, title: "Playground", load: () => import("./playground.js") },
];

const main = document.getElementById("main");
const live = connectLive();
const snapshots = new Map(); // key of a history entry -> what its view keeps
let me = begin();
let order = [];
let view = null;
let entry = "";
let shows = 0;
let keys = 0;

const newKey = () => `${Date.now()}-${(keys += 1)}`;

// Asks who the reader is, then connects. Without a valid key there is nothing to listen to: the view asks for one.
async function begin() {
  try {
    const answer = await api.get("/me");
    setText(document.getElementById("address"), answer.address);
    live.start();
    return answer;
  } catch (error) {
    if (error.status !== 401) live.start();
    return null;
  }
}

function setParams(changes) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    url.searchParams.delete(name);
    for (const one of [value].flat()) if (one !== null && one !== undefined && one !== "") url.searchParams.append(name, one);
  }
  history.replaceState(history.state, "", url);
  return url.searchParams;
}

function neighbour(id, step) {
  const index = order.indexOf(id);
  return index < 0 ? null : (order[index + step] ?? null);
}

/** @returns {Context} */
function context(id) {
  const ctx = {
    api,
    id,
    path: location.pathname,
    params: new URLSearchParams(location.search),
    setParams: (changes) => {
      ctx.params = setParams(changes);
    },
    navigate,
    title: (text) => {
      document.title = `${text} · Dragoman inspector`;
    },
    toast,
    live,
    get me() {
      return me;
    },
    neighbour,
    setOrder: (ids) => {
      order = ids;
    },
    signedIn: () => {
      me = begin();
    },
    restored: snapshots.get(entry),
  };
  return ctx;
}

// The view that is shown keeps what it needs under the key of its entry, then goes.
function leave() {
  if (!view) return;
  snapshots.set(entry, view.snapshot?.());
  view.unmount();
  view = null;
}

async function show({ moveFocus }) {
  leave();
  const turn = (shows += 1);
  if (!history.state?.key) history.replaceState({ key: newKey() }, "");
  entry = history.state.key;
  const route = VIEWS.find(({ pattern }) => pattern.test(location.pathname)) ?? VIEWS[0];
  const id = decodeURIComponent(route.pattern.exec(location.pathname)?.[1] ?? "");
  document.querySelectorAll(".tabs a").forEach((tab, index) => {
    if (index === route.tab) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  });
  const ctx = context(id);
  ctx.title(route.title);
  const module = await route.load().catch(() => null);
  if (turn !== shows) return;
  replace(main);
  if (!ctx.restored) window.scrollTo(0, 0);
  if (module) view = module.mount(main, ctx);
  else showFailure(main, new api.ApiError(0, "unreachable", ""), ctx, () => location.reload());
  if (moveFocus) main.focus({ preventScroll: true });
}

/** Opens another address of the page as a new entry of the history. */
function navigate(path) {
  leave();
  history.pushState({ key: newKey() }, "", path);
  show({ moveFocus: true });
}

function onClick(event) {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (!VIEWS.some(({ pattern }) => pattern.test(link.pathname))) return;
  if (link.hash && link.pathname === location.pathname) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
}

function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("dragoman.theme", root.dataset.theme);
}

const SHELL_KEYS = { t: switchTheme, "?": openHelp };
const AFTER_G = { l: LIST, c: "/inspector/conversations", p: "/inspector/playground" };
const SAME_KEY = { ArrowDown: "j", ArrowUp: "k" };
const TEXT_FIELDS = "input:not([type=checkbox], [type=radio], [type=button]), textarea, select, [contenteditable]";
let afterG = false;

function onKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const field = event.target.closest?.(TEXT_FIELDS);
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  if (event.key.length === 1 && !singleKeys()) return;
  const prefixed = afterG;
  afterG = false;
  if (prefixed && AFTER_G[event.key]) {
    event.preventDefault();
    navigate(AFTER_G[event.key]);
    return;
  }
  if (event.key === "g") {
    afterG = true;
    return;
  }
  // Buttons and links have their own meaning of Enter and the space bar.
  if ((event.key === "Enter" || event.key === " ") && event.target.closest?.("a, button, summary")) return;
  const run = view?.keys?.[event.key] ?? view?.keys?.[SAME_KEY[event.key]] ?? SHELL_KEYS[event.key];
  if (run) {
    if (run(event) !== false) event.preventDefault();
  } else if (event.key === "Escape" && location.pathname !== LIST) {
    event.preventDefault();
    navigate(LIST);
  }
}

history.scrollRestoration = "manual";
document.addEventListener("click", onClick);
document.addEventListener("keydown", onKey);
window.addEventListener("popstate", () => show({ moveFocus: false }));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById("theme").addEventListener("click", switchTheme);
document.getElementById("help").addEventListener("click", openHelp);
watchConnection(live);
show({ moveFocus: false });
