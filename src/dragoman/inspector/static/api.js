// Requests to the gateway. Every path is below /inspector/api; every answer is JSON.

const BASE = "/inspector/api";

/**
 * A request that failed. `status` is 0 if the gateway did not answer.
 */
export class ApiError extends Error {
  /** @param {number} status @param {string} code @param {string} message */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function request(path, options) {
  let response;
  let text;
  try {
    response = await fetch(BASE + path, { credentials: "same-origin", ...options });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The gateway does not answer.");
  }
  if (response.status === 204) return null;
  const body = parsed(text);
  if (response.ok && body !== undefined) return body;
  const problem = body?.error ?? {};
  const words = response.ok ? "The answer is not JSON." : `The gateway answered ${response.status}.`;
  throw new ApiError(response.status, problem.code ?? "", problem.message ?? words);
}

/** @returns {*} the decoded JSON; undefined if it is none, as from a proxy before the gateway */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * @param {string} path below /inspector/api, such as `/exchanges`
 * @param {URLSearchParams|Object<string, string|number>} [params]
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<*>} the decoded answer
 * @throws {ApiError}
 */
export function get(path, params, options = {}) {
  const query = new URLSearchParams(params).toString();
  return request(query ? `${path}?${query}` : path, { signal: options.signal });
}

/**
 * @param {string} path
 * @param {*} body
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<*>} the decoded answer; null if it has no body
 * @throws {ApiError}
 */
export function post(path, body, options = {}) {
  const headers = { "Content-Type": "application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(body), signal: options.signal });
}

/** @param {string} path @returns {string} the address of a download or an event stream */
export function address(path) {
  return BASE + path;
}
