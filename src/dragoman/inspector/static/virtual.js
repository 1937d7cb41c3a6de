// A list of many rows of known heights, with elements only for the rows near the window.
// Elements are recycled: `fill` must set everything that differs between rows.

/**
 * @typedef {Object} VirtualOptions
 * @property {HTMLElement} body the element that becomes as tall as all rows; its rows are positioned inside
 * @property {HTMLElement|null} [scroller] the element that scrolls; the window if it is not given
 * @property {number|function(number): number} height of a row, or of the row with an index, in pixels
 * @property {function(): HTMLElement} make makes an empty row
 * @property {function(HTMLElement, number): void} fill shows the row with an index in an element
 * @property {number} [beyond] rows above and below the window; 10 if it is not given
 * @property {number} [most] elements; 80 if it is not given
 * @property {function(number, number): void} [onrange] called with the first row and the row after the last
 */

/**
 * @typedef {Object} VirtualList
 * @property {function(number): void} setCount sets the number of rows and draws
 * @property {function(): void} measure reads all heights again and draws
 * @property {function(): void} draw fills every element again
 * @property {function(number): void} drawRow fills the element of one row again, if it has one
 * @property {function(number): HTMLElement|undefined} element the element of a row, if it has one
 * @property {function(number): number} top the distance of a row from the top of the body
 * @property {function(number): number} indexAt the row at a distance from the top of the body
 * @property {function(): [number, number]} range the first row with an element, and the row after the last
 * @property {function(number, {top?: number, bottom?: number}=): void} reveal scrolls so that a row is visible
 * @property {function(): void} destroy removes elements and listeners
 */

/**
 * @param {VirtualOptions} options
 * @returns {VirtualList}
 */
export function virtualList({ body, scroller = null, height, make, fill, beyond = 10, most = 80, onrange }) {
  const heightOf = typeof height === "function" ? height : () => height;
  const target = scroller ?? window;
  let offsets = new Float64Array(1); // offsets[i] = top of row i; the last one is the height of all rows
  let rows = 0;
  let shown = new Map(); // row index -> element
  let spare = [];
  let first = 0;
  let after = 0;
  let frame = 0;

  body.classList.add("virtual");

  function measureHeights() {
    offsets = new Float64Array(rows + 1);
    for (let i = 0; i < rows; i += 1) offsets[i + 1] = offsets[i] + heightOf(i);
    body.style.height = `${offsets[rows]}px`;
  }

  function indexAt(distance) {
    let low = 0;
    let high = Math.max(0, rows - 1);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (offsets[middle] <= distance) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // The part of the body that can be seen, measured from its top.
  function windowOfBody() {
    const place = body.getBoundingClientRect();
    const top = scroller ? scroller.getBoundingClientRect().top : 0;
    const tall = scroller ? scroller.clientHeight : window.innerHeight;
    return [Math.max(0, top - place.top), Math.max(0, top + tall - place.top)];
  }

  function place(everything) {
    frame = 0;
    const [from, to] = windowOfBody();
    first = rows ? Math.max(0, indexAt(from) - beyond) : 0;
    after = rows ? Math.min(rows, indexAt(to) + 1 + beyond, first + most) : 0;
    for (const [index, element] of shown) {
      if (index >= first && index < after) continue;
      shown.delete(index);
      spare.push(element);
      // Else the focus would move to another row together with the recycled element.
      if (element.contains(document.activeElement)) document.activeElement.blur();
    }
    for (let index = first; index < after; index += 1) {
      let element = shown.get(index);
      if (element && !everything) continue;
      if (!element) {
        element = spare.pop() ?? make();
        element.hidden = false;
        shown.set(index, element);
        if (!element.isConnected) body.append(element);
      }
      element.style.transform = `translateY(${offsets[index]}px)`;
      element.style.height = `${offsets[index + 1] - offsets[index]}px`;
      fill(element, index);
    }
    for (const element of spare) element.hidden = true;
    onrange?.(first, after);
  }

  const schedule = () => {
    if (!frame) frame = requestAnimationFrame(() => place(false));
  };
  target.addEventListener("scroll", schedule, { passive: true });
  window.addEventListener("resize", schedule, { passive: true });

  const list = {
    setCount(value) {
      rows = value;
      list.measure();
    },
    measure() {
      const [from] = windowOfBody();
      const reading = indexAt(from);
      const before = offsets[reading];
      measureHeights();
      // What is being read keeps its position when rows above it have become taller.
      if (from > 0 && reading < rows && offsets[reading] !== before) target.scrollBy(0, offsets[reading] - before);
      place(true);
    },
    draw() {
      place(true);
    },
    drawRow(index) {
      const element = shown.get(index);
      if (element) fill(element, index);
    },
    element: (index) => shown.get(index),
    top: (index) => offsets[Math.min(Math.max(index, 0), rows)],
    indexAt,
    range: () => [first, after],
    reveal(index, { top = 0, bottom = 0 } = {}) {
      const [from, to] = windowOfBody();
      const above = offsets[index] - (from + top);
      const below = offsets[index + 1] - (to - bottom);
      if (above < 0) target.scrollBy(0, above);
      else if (below > 0) target.scrollBy(0, below);
      place(false);
    },
    destroy() {
      cancelAnimationFrame(frame);
      target.removeEventListener("scroll", schedule);
      window.removeEventListener("resize", schedule);
      body.replaceChildren();
      shown = new Map();
      spare = [];
    },
  };
  return list;
}
