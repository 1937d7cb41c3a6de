// The recorded bytes of one side, fetched in pages when they are shown, and the way from a payload to its bytes.

const PAGE = 16384;
const decoder = new TextDecoder();
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Bytes of one side of an exchange. Pages are fetched once and kept. */
export class ByteSource {
  /**
   * @param {(from: number, to: number) => Promise<{text?: string, base64?: string}>} fetchRange
   * @param {number} size
   */
  constructor(fetchRange, size) {
    this.fetchRange = fetchRange;
    this.size = size;
    /** @type {Map<number, Promise<Uint8Array>>} */
    this.asked = new Map();
    /** @type {Map<number, Uint8Array>} */
    this.pages = new Map();
  }

  /**
   * The bytes of a range if they are here already, else null.
   * @param {number} from
   * @param {number} to
   * @returns {Uint8Array | null}
   */
  peek(from, to) {
    const end = Math.min(to, this.size);
    const bytes = new Uint8Array(Math.max(0, end - from));
    for (let page = Math.floor(from / PAGE); page * PAGE < end; page += 1) {
      const held = this.pages.get(page);
      if (!held) return null;
      const start = page * PAGE;
      bytes.set(held.subarray(Math.max(0, from - start), end - start), Math.max(0, start - from));
    }
    return bytes;
  }

  /**
   * The bytes of a range, fetched if they are not here.
   * @param {number} from
   * @param {number} to
   * @returns {Promise<Uint8Array>}
   */
  async read(from, to) {
    const end = Math.min(to, this.size);
    const waits = [];
    for (let page = Math.floor(from / PAGE); page * PAGE < end; page += 1) waits.push(this.#page(page));
    await Promise.all(waits);
    return this.peek(from, to) ?? new Uint8Array();
  }

  #page(page) {
    const known = this.asked.get(page);
    if (known) return known;
    const asked = this.fetchRange(page * PAGE, Math.min((page + 1) * PAGE, this.size)).then((answer) => {
      const bytes = toBytes(answer);
      this.pages.set(page, bytes);
      return bytes;
    });
    asked.catch(() => this.asked.delete(page));
    this.asked.set(page, asked);
    return asked;
  }
}

function toBytes(answer) {
  if (answer.base64 === undefined) return new TextEncoder().encode(answer.text ?? "");
  return Uint8Array.from(atob(answer.base64), (character) => character.charCodeAt(0));
}

/**
 * The text of a line of raw bytes. A character that is cut by the end of the line is shown on the line where it begins.
 * @param {Uint8Array} bytes the line and up to 3 bytes after it
 * @param {number} length how many of them are on the line
 */
export function lineText(bytes, length) {
  let start = 0;
  while (start < length && isContinuation(bytes[start])) start += 1;
  let end = length;
  while (end < bytes.length && isContinuation(bytes[end])) end += 1;
  return decoder.decode(bytes.subarray(start, end));
}

function isContinuation(byte) {
  return (byte & 0xc0) === 0x80;
}

/**
 * How many bytes the first `count` UTF-16 units of a text take.
 * @param {string} text
 * @param {number} count
 */
export function byteLength(text, count = text.length) {
  let bytes = 0;
  for (const character of text.slice(0, count)) {
    const code = character.codePointAt(0);
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return bytes;
}

/**
 * Where each character of a payload is in its raw row: offsets in bytes, one more than there are characters.
 * Null where the payload is not one JSON string of the row (a payload that was composed of several fields).
 * @param {Uint8Array} raw
 * @param {string} payload
 * @returns {number[] | null}
 */
export function locatePayload(raw, payload) {
  if (!payload) return null;
  for (let at = raw.indexOf(QUOTE); at >= 0; ) {
    const string = jsonString(raw, at + 1);
    const found = string.text.indexOf(payload);
    if (found >= 0) return string.offsets.slice(found, found + payload.length + 1);
    at = raw.indexOf(QUOTE, string.end + 1);
  }
  return null;
}

/** Decode the JSON string that begins at `at`: its text, the byte of each UTF-16 unit, and where it ends. */
function jsonString(raw, at) {
  const offsets = [];
  let text = "";
  while (at < raw.length && raw[at] !== QUOTE) {
    const size = raw[at] === BACKSLASH ? (raw[at + 1] === 0x75 ? 6 : 2) : utf8Size(raw[at]);
    const piece = decoder.decode(raw.subarray(at, at + size));
    const characters = raw[at] === BACKSLASH ? unescapeJson(piece) : piece;
    for (let unit = 0; unit < characters.length; unit += 1) offsets.push(at);
    text += characters;
    at += size;
  }
  offsets.push(at);
  return { text, offsets, end: at };
}

function utf8Size(lead) {
  return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

function unescapeJson(escape) {
  try {
    return JSON.parse(`"${escape}"`);
  } catch {
    return escape;
  }
}
