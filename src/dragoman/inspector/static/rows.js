// The rows of the linked columns. Of a long response the server sends the first rows, and of all others where and when
// they are, so that lines, blocks and positions are right from the start. Their text is fetched in pages when it is shown.

/** The names of the columns in the server's answers. */
export const SIDES = { up: "upstream", ev: "meaning", client: "client" };

/**
 * All rows of a column. A row whose text was not sent has none; rows that were known before keep theirs.
 * @param {any} column
 * @param {any[]} [before]
 * @returns {any[]}
 */
export function allRows(column, before = []) {
  const { rows, outline } = column;
  if (!outline) return rows;
  const all = rows.slice();
  for (const [kind, count] of outline.kinds) for (let index = 0; index < count; index += 1) all.push({ kind });
  for (const [index, level] of outline.levels) all[rows.length + index].level = level;
  if (outline.sizes) addPlaces(all, rows.length, outline);
  for (let index = rows.length; index < all.length; index += 1) {
    const known = before[index];
    if (known?.text !== undefined && known.kind === all[index].kind && known.to === all[index].to) all[index] = known;
  }
  return all;
}

function addPlaces(all, first, { sizes, gaps, times }) {
  const gapOf = new Map(gaps);
  let { to, at } = all[first - 1];
  at = Math.round(at * 100);
  for (const [index, size] of sizes.entries()) {
    const from = to + (gapOf.get(index) ?? 0);
    to = from + size;
    at += times[index];
    Object.assign(all[first + index], { from, to, at: at / 100 });
  }
}

/**
 * All links. One that is repeated has as many rows in each column, and they follow those of the link before.
 * @param {any[]} links
 * @returns {any[]}
 */
export function allLinks(links) {
  const all = [];
  for (const link of links) {
    all.push(link);
    for (let time = 1; time < (link.times ?? 1); time += 1) {
      const copy = { block: link.block };
      for (const column of Object.keys(SIDES)) copy[column] = link[column].map((row) => row + time * link[column].length);
      all.push(copy);
    }
  }
  return all;
}

/** Fetches the text of rows, page by page, each once. */
export class RowPages {
  /**
   * @param {(side: string, from: number) => Promise<{from: number, rows: any[]}>} fetchPage
   * @param {(column: import("./links.js").Column) => void} onLoad called when rows of a column have come
   */
  constructor(fetchPage, onLoad) {
    this.fetchPage = fetchPage;
    this.onLoad = onLoad;
    this.asked = new Set();
  }

  /** @param {import("./links.js").LinkMap} map */
  setMap(map) {
    this.map = map;
    this.asked.clear();
  }

  /**
   * Asks for the page that has a row.
   * @param {import("./links.js").Column} column
   * @param {number} row
   */
  async load(column, row) {
    const { map } = this;
    const size = map.exchange[SIDES[column]].rows.length;
    const from = row - (row % size);
    const key = `${column}:${from}`;
    if (this.asked.has(key)) return;
    this.asked.add(key);
    try {
      const page = await this.fetchPage(SIDES[column], from);
      for (const [index, loaded] of page.rows.entries()) Object.assign(map.rows[column][page.from + index] ?? {}, loaded);
    } catch {
      this.asked.delete(key); // the rows stay empty; the next draw asks again
      return;
    }
    if (map === this.map) this.onLoad(column);
  }
}
