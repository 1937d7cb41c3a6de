// The figures above the list, each with a picture of its course.

import { h, moment, number, percent, replace, svg } from "./dom.js";

const WIDTH = 160;
const HEIGHT = 30;
const BASE = HEIGHT - 1;

function baseline() {
  return svg("rect", { class: "f-data2", y: BASE, width: WIDTH, height: 1 });
}

// A line with the area below it; points that are null interrupt it.
function lines(values, most) {
  const step = WIDTH / Math.max(1, values.length - 1);
  const height = (value) => (BASE - (value / most) * (BASE - 3)).toFixed(1);
  const runs = [];
  let run = null;
  values.forEach((value, index) => {
    if (value === null) run = null;
    else {
      if (!run) runs.push((run = []));
      run.push([(index * step).toFixed(1), height(value)]);
    }
  });
  return runs.flatMap((points) => {
    const path = points.map(([x, y]) => `${x} ${y}`).join(" L");
    const [first, last] = [points[0][0], points.at(-1)[0]];
    return [
      svg("path", { class: "area", d: `M${first} ${BASE} L${path} L${last} ${BASE}Z` }),
      svg("path", { class: "l-data", d: points.length === 1 ? `M${path} h1` : `M${path}`, "vector-effect": "non-scaling-stroke" }),
    ];
  });
}

function bars(values, most, role) {
  const step = WIDTH / Math.max(1, values.length);
  return values.flatMap((value, index) => {
    if (!value) return [];
    const height = (value / most) * (BASE - 3);
    return [svg("rect", { class: role, x: (index * step + step * 0.2).toFixed(1), y: (BASE - height).toFixed(1), width: (step * 0.6).toFixed(1), height: height.toFixed(1) })];
  });
}

/**
 * @param {(number|null)[]} values
 * @param {{kind: "line"|"bars", role?: string, most?: number}} options
 * @returns {SVGElement}
 */
export function sparkline(values, { kind, role, most }) {
  const top = most ?? Math.max(...values.map((value) => value ?? 0), 0);
  const shapes = top ? (kind === "line" ? lines(values, top) : bars(values, top, role)) : [];
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, baseline(), shapes);
}

const small = (...text) => h("small", {}, ...text);

function figures({ now, ...points }) {
  const first = now.first_ms === null ? ["–"] : [(now.first_ms / 1000).toFixed(2), " ", small(`s · p95 ${(now.first_p95_ms / 1000).toFixed(2)} s`)];
  const failed = [number(now.failed), " ", small(`of ${number(now.of)}`, now.of ? ` · ${percent(now.failed / now.of, 1)}` : "")];
  return [
    ["Exchanges per min", [now.per_minute.toFixed(1)], sparkline(points.per_minute, { kind: "line" })],
    ["First event, median", first, sparkline(points.first_ms, { kind: "line" })],
    ["Failed", failed, sparkline(points.failed, { kind: "bars", role: "f-error" })],
    ["Tool calls repaired", [number(now.repaired), " ", small(`of ${number(now.calls)}`)], sparkline(points.repaired, { kind: "bars", role: "f-call" })],
    ["Input tokens read from cache", now.cached_share === null ? ["–"] : [(now.cached_share * 100).toFixed(0), " ", small("%")], sparkline(points.cached_share, { kind: "line", most: 1 })],
  ];
}

/**
 * Fills the strip of figures.
 * @param {HTMLElement} root
 * @param {Object} overview the answer of /overview
 * @param {function(number, number): void} onrange called with the two times of the part that was clicked
 */
export function showOverview(root, overview, onrange) {
  const { from, to } = overview;
  const range = `${moment(from)} to ${moment(to)}`;
  // A click on a picture picks the surrounding tenth; the keyboard picks all of it.
  const pick = (event) => {
    const picture = event.currentTarget.querySelector("svg").getBoundingClientRect();
    if (!event.detail || event.clientX < picture.left || event.clientX > picture.right) return onrange(from, to);
    const at = from + ((event.clientX - picture.left) / picture.width) * (to - from);
    return onrange(Math.max(from, at - (to - from) / 20), Math.min(to, at + (to - from) / 20));
  };
  replace(
    root,
    figures(overview).map(([name, value, picture]) =>
      h(
        "button",
        { class: "stat", type: "button", title: `${range}. Click to filter by time.`, onclick: pick },
        h("span", { class: "name" }, name),
        h("span", { class: "v" }, value),
        picture,
      ),
    ),
  );
}
