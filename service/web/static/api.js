// The API of this service: what is shown on a page is what it answers.

const LONGEST_RETRY_MS = 3_600_000;

/** A problem document (RFC 9457) that was answered, or that nothing was. */
export class Problem extends Error {
  constructor(status, document, retryAfterMs = null) {
    super(document.detail ?? document.title ?? `HTTP ${status}`);
    this.status = status;
    this.type = document.type ?? "about:blank";
    this.title = document.title ?? "";
    this.detail = document.detail ?? "";
    /** [{pointer, code, detail}] */
    this.errors = document.errors ?? [];
    this.traceId = document.trace_id ?? null;
    /** When the service wants to be asked again; null where it does not say. */
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * Ask; `{data, status, headers}`. `body` is sent as JSON, a Blob as what it is. Raises `Problem`; an aborted request
 * raises the AbortError of fetch. Without a valid key it goes to the sign-in page and never returns.
 */
export async function ask(method, path, { body, headers = {}, signal, text = false } = {}) {
  const isFile = body instanceof Blob;
  const answer = await reach(path, {
    method,
    signal,
    headers: {
      Accept: "application/json",
      ...(body === undefined ? {} : { "Content-Type": isFile ? body.type : "application/json" }),
      ...headers,
    },
    body: body === undefined || isFile ? body : JSON.stringify(body),
  });
  if (answer.status === 401 && path !== "/v1/session") return goToSignIn();
  if (!answer.ok) throw new Problem(answer.status, await problemOf(answer), retryAfter(answer.headers));
  if (answer.status === 204) return { data: null, status: 204, headers: answer.headers };
  return {
    data: text ? await answer.text() : await answer.json(),
    status: answer.status,
    headers: answer.headers,
  };
}

/** Leave for the sign-in page, which leads back; it never returns. */
export function goToSignIn() {
  const here = location.pathname + location.search + location.hash;
  location.assign(`/sign-in?next=${encodeURIComponent(here)}`);
  return new Promise(() => {});
}

export async function get(path, options = {}) {
  return (await ask("GET", path, options)).data;
}

// What was sent and not yet answered with success: "path body" → its key.
const open_keys = new Map();

/**
 * A POST that makes something. Until it succeeds the same path and body keep their key: what was
 * made although its answer got lost is answered when it is sent again, not made twice. A refusal
 * leaves a key free, so it is kept then too; after a success the next press is a new wish.
 */
export async function create(path, body, options = {}) {
  const content = body instanceof Blob ? await body.text() : JSON.stringify(body);
  const wish = `${path} ${content}`;
  if (!open_keys.has(wish)) open_keys.set(wish, newKey());
  const key = open_keys.get(wish);
  const made = await ask("POST", path, { ...options, body, headers: { "Idempotency-Key": key, ...(options.headers ?? {}) } });
  // Two presses may have been under way at once: the key may be a newer wish's by now.
  if (open_keys.get(wish) === key) open_keys.delete(wish);
  return made;
}

/** 128 random bits; crypto.randomUUID is not there over plain HTTP. */
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The path with a query; null and "" are left out, lists repeat the parameter. */
export function withQuery(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, String(one));
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

async function reach(path, options) {
  try {
    return await fetch(path, { credentials: "same-origin", cache: "no-cache", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const { t } = await import("./texts.js");
    throw new Problem(0, { title: t("common.unreachable"), detail: t("common.unreachable_detail") });
  }
}

/** Retry-After in ms, of seconds or of a date; null without one. */
function retryAfter(headers) {
  const text = headers.get("Retry-After");
  if (text === null) return null;
  const wait = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return Number.isFinite(wait) ? Math.min(Math.max(wait, 500), LONGEST_RETRY_MS) : null;
}

async function problemOf(answer) {
  try {
    return await answer.json();
  } catch {
    return { title: `HTTP ${answer.status}` };
  }
}
