// What a view shows when it has nothing else to show: empty, loading, failed.

import { h, icon, replace } from "./dom.js";

/**
 * A sentence in the middle of the page.
 * @param {string} title
 * @param {Array<*>} paragraphs each a string, a node, or an array of both
 * @param {{level?: "warn"|"error", action?: Node}} [options]
 * @returns {HTMLElement}
 */
export function state(title, paragraphs, { level, action } = {}) {
  return h(
    "div",
    { class: "state" },
    level && h("span", { class: `c-${level}` }, icon("warning")),
    h("b", {}, title),
    paragraphs.map((paragraph) => (paragraph instanceof Element ? paragraph : h("p", {}, paragraph))),
    action,
  );
}

/**
 * Grey rows while data is on its way.
 * @param {string} label for assistive technology
 * @param {number} [rows]
 * @returns {HTMLElement}
 */
export function skeleton(label, rows = 12) {
  const bars = () => h("div", { class: "skel" }, h("i"), h("i"), h("i"));
  return h("div", { "aria-busy": "true", role: "status", "aria-label": label }, Array.from({ length: rows }, bars));
}

/**
 * Shows why a request failed, in place of a view's content.
 * @param {Element} root
 * @param {import("./api.js").ApiError} error
 * @param {Object} ctx
 * @param {function(): void} again repeats the request
 */
export function showFailure(root, error, ctx, again) {
  const button = (text, action) => h("button", { class: "btn", type: "button", onclick: action }, text);
  if (error.status === 401) return replace(root, signIn(ctx, again));
  if (error.status === 403)
    return replace(root, state("This key cannot see this exchange", [["It sees only its own. Ask for a key with the right ", h("code", {}, "inspect"), "."]]));
  if (error.status === 410) {
    replace(root, state("This exchange was deleted", [h("p", { class: "kept" })]));
    ctx.me.then((me) => replace(root.querySelector(".kept"), me?.keep ? `Recordings are kept for ${me.keep}.` : ""));
    return undefined;
  }
  if (error.code === "newer_version") {
    const title = "This recording is from a newer version";
    return replace(root, state(title, [error.message.replace(`${title}. `, "")], { level: "warn" }));
  }
  if (error.status === 404) return replace(root, state("Not found", ["This address does not exist, or its recording was deleted."]));
  const title = error.status === 0 ? "The gateway does not answer" : "The request failed";
  return replace(root, state(title, [error.status === 0 ? "Nothing was loaded yet." : error.message], { level: "error", action: button("Try now", again) }));
}

/**
 * The form that exchanges a key for a session cookie. The key is sent once and kept nowhere in the page.
 * @param {Object} ctx
 * @param {function(): void} done
 * @returns {HTMLElement}
 */
function signIn(ctx, done) {
  const key = h("input", { type: "password", name: "key", id: "key", autocomplete: "off", required: true, spellcheck: "false" });
  const problem = h("p", { class: "c-error", role: "alert" });
  const submit = async (event) => {
    event.preventDefault();
    replace(problem);
    try {
      await ctx.api.post("/session", { key: key.value });
      key.value = "";
      ctx.signedIn();
      done();
    } catch (error) {
      replace(problem, error.status === 401 ? "The gateway does not know this key." : error.message);
      key.select();
    }
  };
  return h(
    "form",
    { class: "state signin", onsubmit: submit },
    h("b", {}, "This gateway requires a key"),
    h("label", { for: "key" }, "A key with the right ", h("code", {}, "inspect"), " sees all exchanges, any other key its own."),
    h("span", { class: "line" }, key, h("button", { class: "btn main", type: "submit" }, "Open")),
    problem,
  );
}
