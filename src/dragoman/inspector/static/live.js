// The event stream of new and changed exchanges. Rows are collected and delivered at most four times a
// second, and not while the page is hidden: then they wait, and if there are too many, all of them are dropped and
// the views load what is new when the page is shown. A lost connection is tried again, later each time.

import { address } from "./api.js";

const DELIVERY_MS = 250;
const FIRST_RETRY_S = 1;
const LAST_RETRY_S = 15;
const MOST_WAITING = 1000; // rows of about 1 KB

/**
 * @typedef {Object} Live
 * @property {"connecting"|"live"|"lost"} state
 * @property {number} arrived when the last event arrived, in seconds since 1970; 0 if none did
 * @property {number} retryIn seconds until the next try
 * @property {function(function(Object[]): void): function(): void} subscribe calls the function with rows that
 *   are new or have changed; returns a function that ends it
 * @property {function(function(Live, string): void): function(): void} watch calls the function when the state
 *   changed: with "state", "retry" (the seconds changed) or "back" (something may have been missed)
 * @property {function(): void} retry connects now
 * @property {function(): void} start
 * @property {function(): void} stop
 */

/** @returns {Live} */
export function connectLive() {
  const readers = new Set();
  const watchers = new Set();
  const waiting = new Map();
  let missed = false; // rows were dropped while the page was hidden
  let source = null;
  let lastId = "";
  let delivery = 0;
  let countdown = 0;
  let nextRetry = FIRST_RETRY_S;

  const notify = (what) => watchers.forEach((watcher) => watcher(live, what));

  function deliver() {
    delivery = 0;
    if (document.hidden || !waiting.size) return;
    const rows = [...waiting.values()];
    waiting.clear();
    readers.forEach((reader) => reader(rows));
  }

  function arrive(event) {
    lastId = event.lastEventId || lastId;
    live.arrived = Date.now() / 1000;
    if (missed) return;
    const row = JSON.parse(event.data);
    waiting.set(row.id, row);
    if (document.hidden && waiting.size > MOST_WAITING) {
      missed = true;
      waiting.clear();
    }
    if (!delivery) delivery = setTimeout(deliver, DELIVERY_MS);
  }

  function opened() {
    const back = live.state === "lost";
    live.state = "live";
    live.arrived = Date.now() / 1000;
    nextRetry = FIRST_RETRY_S;
    notify("state");
    if (back) notify("back");
  }

  function lost() {
    source.close();
    live.state = "lost";
    live.retryIn = nextRetry;
    nextRetry = Math.min(nextRetry * 2, LAST_RETRY_S);
    notify("state");
    clearInterval(countdown);
    countdown = setInterval(() => {
      live.retryIn -= 1;
      if (live.retryIn > 0) notify("retry");
      else live.retry();
    }, 1000);
  }

  function connect() {
    clearInterval(countdown);
    source?.close();
    source = new EventSource(address(lastId ? `/live?after=${encodeURIComponent(lastId)}` : "/live"));
    source.addEventListener("hello", opened);
    source.addEventListener("exchange", arrive);
    source.addEventListener("reset", () => notify("back"));
    source.addEventListener("error", lost);
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    if (missed) {
      missed = false;
      notify("back");
    }
    deliver();
  });

  /** @type {Live} */
  const live = {
    state: "connecting",
    arrived: 0,
    retryIn: 0,
    subscribe(reader) {
      readers.add(reader);
      return () => readers.delete(reader);
    },
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    retry: connect,
    start: connect,
    stop() {
      clearInterval(countdown);
      source?.close();
    },
  };
  return live;
}
