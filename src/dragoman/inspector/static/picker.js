// A button that opens a list of values to choose from: one of them, or several.

import { h, icon, number, plain, replace, setText } from "./dom.js";

/**
 * @typedef {Object} Choice
 * @property {string} value
 * @property {string} [label] the value if it is not given
 * @property {number} [count]
 */

/**
 * @typedef {Object} PickerOptions
 * @property {string} name such as `Model`
 * @property {string} [all] the label if nothing is chosen; `All` if it is not given
 * @property {boolean} [several] whether several values can be chosen
 * @property {boolean} [pattern] whether a pattern with `*` can be typed
 * @property {function(): (Choice[]|Promise<Choice[]>)} choices called each time the list opens
 * @property {function(string[]): void} onchange
 */

/**
 * @typedef {Object} Picker
 * @property {HTMLElement} element
 * @property {function(string[]): void} set shows other values as chosen
 * @property {function(): void} open
 * @property {function(): void} close
 */

let ids = 0;

// Typed text matches anywhere; with a `*` it is a pattern of the whole name.
function matchesTyped(name, typed) {
  if (!typed.includes("*")) return name.toLowerCase().includes(typed.toLowerCase());
  const parts = typed.split("*").map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "i").test(name);
}

/**
 * @param {PickerOptions} options
 * @returns {Picker}
 */
export function picker({ name, all = "All", several = false, pattern = false, choices, onchange }) {
  const id = `picker-${(ids += 1)}`;
  let chosen = [];
  let known = [];
  let shown = [];
  let active = -1;

  const value = h("span", { class: "v" }, all);
  const button = h(
    "button",
    { class: "pick", type: "button", "aria-haspopup": "listbox", "aria-expanded": "false", onclick: () => (menu.hidden ? open() : close()) },
    h("span", { class: "k" }, name),
    value,
    icon("chevron", 10),
  );
  const listbox = h("div", { role: "listbox", id, tabindex: "0", "aria-label": name, "aria-multiselectable": String(several) });
  const input = pattern
    ? h("input", {
        class: "glob",
        type: "text",
        placeholder: "Type a name or a pattern, such as kimi*",
        "aria-label": `${name}: name or pattern`,
        "aria-controls": id,
        autocomplete: "off",
        spellcheck: "false",
        oninput: () => draw(),
      })
    : null;
  const menu = h("div", { class: "menu", hidden: true }, input, listbox);
  const element = h("div", { class: "picker", onkeydown: onKey, onfocusout: onFocusOut }, button, menu);

  const labelOf = (one) => known.find((choice) => choice.value === one)?.label ?? one;

  function showChosen() {
    const text = chosen.length ? chosen.map(labelOf).join(", ") : all;
    setText(value, text);
    value.title = plain(text);
    button.classList.toggle("on", chosen.length > 0);
  }

  // Values that are chosen but no longer occur stay in the list, so that they can be removed.
  function matching() {
    const typed = input?.value.trim() ?? "";
    const extra = chosen.filter((one) => !known.some((choice) => choice.value === one)).map((one) => ({ value: one }));
    const matches = [...extra, ...known].filter((choice) => matchesTyped(choice.label ?? choice.value, typed));
    const isNew = typed && !matches.some((choice) => choice.value === typed);
    return isNew ? [{ value: typed, label: typed }, ...matches] : matches;
  }

  function draw() {
    shown = matching();
    active = Math.min(Math.max(active, 0), shown.length - 1);
    replace(
      listbox,
      shown.map((choice, index) =>
        h(
          "div",
          {
            class: "option",
            role: "option",
            id: `${id}-${index}`,
            "aria-selected": String(chosen.includes(choice.value)),
            title: choice.label ?? choice.value,
            onclick: () => choose(index),
          },
          icon("check", 12),
          h("span", { class: "trim" }, choice.label ?? choice.value),
          choice.count !== undefined && h("span", { class: "n" }, number(choice.count)),
        ),
      ),
      !shown.length && h("p", { class: "none" }, "Nothing to choose from yet."),
    );
    markActive();
  }

  function markActive() {
    [...listbox.children].forEach((option, index) => option.classList.toggle("active", index === active));
    const option = listbox.children[active];
    for (const holder of [listbox, input]) if (holder) holder.setAttribute("aria-activedescendant", option?.id ?? "");
    option?.scrollIntoView({ block: "nearest" });
  }

  function choose(index) {
    const one = shown[index]?.value;
    if (one === undefined) return;
    if (!several) chosen = one === "" ? [] : [one];
    else chosen = chosen.includes(one) ? chosen.filter((other) => other !== one) : [...chosen, one];
    if (input) input.value = "";
    showChosen();
    onchange(chosen);
    if (several) draw();
    else close();
  }

  async function open() {
    active = 0;
    menu.hidden = false;
    button.setAttribute("aria-expanded", "true");
    document.addEventListener("pointerdown", onPointerDown);
    const place = button.getBoundingClientRect();
    menu.classList.toggle("right", place.left + 320 > window.innerWidth);
    draw();
    (input ?? listbox).focus();
    known = await choices();
    showChosen();
    if (!menu.hidden) draw();
  }

  function close() {
    if (menu.hidden) return;
    const inside = menu.contains(document.activeElement);
    menu.hidden = true;
    button.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", onPointerDown);
    if (inside) button.focus();
  }

  function onKey(event) {
    if (menu.hidden) {
      if (event.key === "ArrowDown" && event.target === button) {
        event.preventDefault();
        open();
      }
      return;
    }
    const moves = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
    const writing = event.target === input;
    if (moves[event.key] !== undefined && !(writing && Math.abs(moves[event.key]) > 1)) {
      active = Math.min(Math.max(active + moves[event.key], 0), shown.length - 1);
      markActive();
    } else if (event.key === "Enter" || (event.key === " " && !writing)) choose(active);
    else if (event.key === "Escape") close();
    else if (event.key === "Tab") return close();
    else return undefined;
    event.preventDefault();
    return undefined;
  }

  function onFocusOut(event) {
    if (event.relatedTarget && !element.contains(event.relatedTarget)) close();
  }

  function onPointerDown(event) {
    if (!element.contains(event.target)) close();
  }

  return {
    element,
    set(values) {
      chosen = [...values];
      showChosen();
    },
    open,
    close,
  };
}
