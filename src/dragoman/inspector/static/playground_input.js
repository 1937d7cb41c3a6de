// The input of the playground as coloured pieces. They lie below the text field, character by character in the
// same places: invisible characters cannot become escapes there, so they are listed under the field.

import { h, plain } from "./dom.js";

const MOST_PIECES = 5000;

/**
 * The pieces of a text: cuts between chunks, markers, and what is selected.
 * @param {string} text
 * @param {any} answer what the gateway found, or null
 * @param {number[][] | null} selected byte ranges
 * @returns {{pieces: (Node | string)[], invisible: string[]}}
 */
export function inputPieces(text, answer, selected) {
  const invisible = invisibleCharacters(text);
  if (!answer) return { pieces: [document.createTextNode(text)], invisible };
  const ranges = [...markerRanges(answer), ...eventRanges(answer), ...(selected ?? []).map((range) => [...range, "hot"])];
  const cuts = answer.cuts.slice(0, MOST_PIECES);
  const edges = [...new Set([0, ...cuts, ...ranges.flatMap(([from, to]) => [from, to])])].sort((a, b) => a - b).slice(0, MOST_PIECES);
  const units = unitsOfBytes(text, edges);
  const isCut = new Set(cuts);
  const classes = classesOf(edges, ranges);
  const pieces = edges.map((edge, index) => {
    const content = text.slice(units[index], units[index + 1] ?? text.length);
    const kind = `${classes[index]}${isCut.has(edge) && edge > 0 ? " cut" : ""}`;
    const node = document.createTextNode(content); // not `visible`: the places must be those of the field
    return kind.trim() ? h("span", { class: kind.trim() }, node) : node;
  });
  return { pieces, invisible };
}

function markerRanges(answer) {
  return answer.calls.flatMap((call) => (call.markers ?? []).map(({ from, to }) => [from, to, "mk"]));
}

function eventRanges(answer) {
  const classes = { reasoning: "rs", marker: "mk" };
  return answer.events.filter((event) => classes[event.kind] && event.from !== undefined && event.from !== null).map((event) => [event.from, event.to, classes[event.kind]]);
}

/** The classes of each piece. Ranges are walked once: both lists are sorted. */
function classesOf(edges, ranges) {
  const sorted = ranges.toSorted((a, b) => a[0] - b[0]);
  let next = 0;
  let open = [];
  return edges.map((edge) => {
    while (next < sorted.length && sorted[next][0] <= edge) open.push(sorted[next++]);
    open = open.filter((range) => range[1] > edge);
    return [...new Set(open.map((range) => range[2]))].join(" ");
  });
}

/** The UTF-16 index of each byte offset; offsets are sorted. A cut inside a character is shown after it. */
function unitsOfBytes(text, offsets) {
  const units = [];
  let [unit, byte] = [0, 0];
  for (const offset of offsets) {
    while (byte < offset && unit < text.length) {
      const code = text.codePointAt(unit);
      byte += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
      unit += code < 0x10000 ? 1 : 2;
    }
    units.push(unit);
  }
  return units;
}

/** Each kind of invisible character in a text, once. */
function invisibleCharacters(text) {
  const escapes = plain(text) === text ? [] : [...new Set(text)].filter((character) => plain(character) !== character);
  return escapes.slice(0, 20);
}
