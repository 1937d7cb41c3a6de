// The dialog that lists the keyboard shortcuts, and the switch that turns single keys off.

import { h } from "./dom.js";

const STORED = "dragoman.keys";

const KEYS = [
  [["j", "k"], "Next, previous row (also the arrow keys)"],
  [["Enter"], "Open; in columns: select the block, then the event"],
  [["/"], "Search"],
  [["f"], "Filters"],
  [["n"], "Show new exchanges"],
  [["g", "l"], "List of exchanges"],
  [["g", "c"], "Conversations"],
  [["g", "p"], "Playground"],
  [["[", "]"], "Previous, next exchange or turn"],
  [["h", "l"], "Previous, next linked column"],
  [["x", "X"], "Next, previous problem"],
  [["r"], "Raw or payload"],
  [["c"], "Copy the selected bytes"],
  [["t"], "Switch theme"],
  [["Esc"], "Close, clear the selection, back to the list"],
  [["?"], "This help"],
];

/** @returns {boolean} whether single keys are shortcuts */
export function singleKeys() {
  return localStorage.getItem(STORED) !== "off";
}

/** Opens the dialog; the focus returns to where it was. */
export function openHelp() {
  const before = document.activeElement;
  const single = h("input", {
    type: "checkbox",
    checked: singleKeys(),
    onchange: () => localStorage.setItem(STORED, single.checked ? "on" : "off"),
  });
  const dialog = h(
    "dialog",
    { class: "dialog", "aria-labelledby": "help-title" },
    h(
      "header",
      {},
      h("h2", { id: "help-title" }, "Keyboard"),
      h("span", { class: "grow" }),
      h("button", { class: "btn quiet", type: "button", onclick: () => dialog.close() }, "Close"),
    ),
    h(
      "dl",
      { class: "keys" },
      KEYS.map(([keys, action]) => [h("dt", {}, keys.flatMap((key) => [h("kbd", {}, key), " "])), h("dd", { class: "mid" }, action)]),
    ),
    h("label", { class: "check-line" }, single, "Single keys are shortcuts"),
  );
  showDialog(dialog, before);
}

/**
 * Opens a dialog that is removed when it closes. A click outside closes it.
 * @param {HTMLDialogElement} dialog
 * @param {Element|null} before gets the focus afterwards
 */
export function showDialog(dialog, before) {
  dialog.addEventListener("close", () => {
    dialog.remove();
    before?.focus?.();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
}
