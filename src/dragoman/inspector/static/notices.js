// Messages at the edge of the page: toasts, and the line that appears when the connection is lost.

import { clock, h, replace } from "./dom.js";

const TOAST_MS = 5000;
let timer = 0;

/**
 * Shows a message for five seconds, longer while it is hovered or focused. A new one replaces it.
 * @param {string|Array<*>} text
 * @param {{label: string, run: function(): void}} [action]
 */
export function toast(text, action) {
  const place = document.getElementById("toasts");
  const close = () => replace(place);
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(close, TOAST_MS);
  };
  const wait = () => clearTimeout(timer);
  const button = action && h("button", { type: "button", onclick: () => (close(), action.run()) }, action.label);
  replace(
    place,
    h("div", { class: "toast", onmouseenter: wait, onmouseleave: later, onfocusin: wait, onfocusout: later }, h("span", {}, text), button),
  );
  later();
}

/**
 * Keeps the live state in the top bar and the line about a lost connection current.
 * @param {import("./live.js").Live} live
 */
export function watchConnection(live) {
  const indicator = document.getElementById("live");
  const word = indicator.querySelector(".word");
  const dot = indicator.querySelector(".dot");
  const words = { connecting: "Connecting", live: "Live", lost: "Reconnecting" };
  const next = h("span");
  const since = h("span");
  const line = h(
    "div",
    { class: "lost", role: "status" },
    h("b", {}, "The gateway does not answer."),
    since,
    next,
    h("button", { class: "btn", type: "button", onclick: () => live.retry() }, "Try now"),
  );
  live.watch((_, what) => {
    word.textContent = words[live.state];
    dot.className = live.state === "live" ? "dot pulse" : "dot waiting";
    if (live.state !== "lost") return line.remove();
    if (what === "state") since.textContent = live.arrived ? `You see what arrived until ${clock(live.arrived)}.` : "";
    next.textContent = `Next try in ${live.retryIn} s.`;
    if (!line.isConnected) document.body.append(line);
    return undefined;
  });
}
