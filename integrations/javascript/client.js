// Client of the HMX memory service: appends events, asks for packs, reads and corrects what is known.
//
//   const memory = new HmxClient({ url: "http://127.0.0.1:8080", tenant: "acme" });
//   const { after } = await memory.append(message("my-session", 0, "The registry moved to registry.internal"));
//   console.log((await memory.pack("Where is the registry?", { after })).text);

const BATCH_EVENTS = 500;
const BATCH_LENGTH = 4 * 1024 * 1024;
const LONGEST_MS = 10_000; // pause before a call is repeated
const AGAIN = new Set([429, 503]);

/** `reason` is stable across releases: a problem of docs/reference/routes.md, or `no_answer`. */
export class HmxError extends Error {
  constructor(reason, detail, status = 0, raw = {}) {
    super(`${reason}: ${detail}`);
    Object.assign(this, { name: "HmxError", reason, status, raw });
  }
}

export class HmxClient {
  #settings;
  #headers = { "Content-Type": "application/json" };

  constructor({ url = "http://127.0.0.1:8080", key, tenant, timeoutMs = 30_000, tries = 3 } = {}) {
    this.#settings = { url: url.replace(/\/+$/, ""), tenant, timeoutMs, tries };
    if (key) this.#headers.Authorization = `Bearer ${key}`;
    else if (tenant) this.#headers["X-HMX-Tenant"] = tenant;
  }

  append(...events) {
    const { tenant } = this.#settings;
    const named = events.map(event => (tenant ? { tenant_id: tenant, ...event } : event));
    return this.#call("POST", "/v1/hmx/events", written(named), said => {
      const rejected = said.results.filter(one => one.status === "rejected");
      return { accepted: said.summary.accepted, rejected, after: said.after ?? undefined };
    });
  }

  async capture(events) {
    const waiting = events.map(event => written(keyed(event)));
    let refused = 0;
    while (waiting.length) refused += await this.captureWritten(waiting.splice(0, fitting(waiting)));
    return refused;
  }

  /** One request of captures that are JSON already. */
  captureWritten(texts) {
    const body = `{"events":[${texts.join(",")}]}`;
    return this.#call("POST", "/v1/capture/batch", body, said => (said.data ?? said).summary.errors);
  }

  pack(query, asked = {}) {
    return this.#call("POST", "/v1/hmx/context-packs", written({ query, as_text: true, ...asked }), raw => {
      const { as_text: text = "", memory_complete: complete = true } = raw.metadata ?? {};
      return { entries: [...raw.entries], text, complete, raw };
    });
  }

  artifacts = asked => this.#call("GET", `/v1/hmx/artifacts${search(asked)}`, undefined, page("artifacts"));
  artifact = id => this.#call("GET", `/v1/hmx/artifacts/${encodeURIComponent(id)}`);
  knowledge = asked => this.#call("GET", `/v1/hmx/knowledge${search(asked)}`, undefined, page("records"));
  record = id => this.#call("GET", `/v1/hmx/knowledge/${encodeURIComponent(id)}`);
  confirm = (id, said) => this.#rule(id, "confirm", said);
  correct = (id, said) => this.#rule(id, "correct", said);
  retract = (id, said) => this.#rule(id, "retract", said);
  erase = scope => this.#call("POST", "/v1/hmx/erasures", written(scope));

  #rule(id, verb, said = {}) {
    return this.#call("POST", `/v1/hmx/knowledge/${encodeURIComponent(id)}/${verb}`, written(said));
  }

  /** Repeats what is refused for now or not reached, as long as `timeoutMs` allows. All calls may be repeated. */
  async #call(method, path, body, read = said => said) {
    const { url, timeoutMs, tries } = this.#settings;
    const end = Date.now() + timeoutMs;
    for (let tried = 1; ; tried++) {
      let answer, text, failure;
      try {
        const signal = AbortSignal.timeout(Math.max(1, end - Date.now()));
        answer = await fetch(url + path, { method, headers: this.#headers, body, signal });
        text = await answer.text();
      } catch (error) {
        failure = error;
      }
      const pause = pauseMs(failure ? null : answer, tried);
      if (tried < tries && pause !== null && Date.now() + pause < end) await new Promise(done => setTimeout(done, pause));
      else if (failure) throw new HmxError("no_answer", `${url} does not answer: ${failure.cause?.message ?? failure.message}`);
      else return result(answer, text, read);
    }
  }
}

/** An event of now. Send the same one again after an error: it is recognised by its event_id. */
export function message(sessionId, sequence, text, { role = "user", ...fields } = {}) {
  return {
    hmx_version: "HMX-1.0", event_id: uuid(), event_type: "message", agent_id: "javascript", session_id: sessionId,
    timestamp: new Date().toISOString(), sequence, content: { role, text }, metadata: {}, ...fields,
  };
}

/** How many texts fit into one request, at least one. */
export function fitting(texts) {
  let length = 0;
  const end = texts.findIndex((text, i) => i === BATCH_EVENTS || ((length += text.length) > BATCH_LENGTH && i > 0));
  return end < 0 ? texts.length : end;
}

/** As JSON. Half a character, for which the service would refuse the whole request, becomes a mark. */
export function written(value) {
  return JSON.stringify(value, (_, part) => (typeof part === "string" ? part.replace(/\p{Surrogate}/gu, "\ufffd") : part));
}

/** How long to wait before a call is repeated, by chance up to a quarter longer; null if that would not help. */
function pauseMs(answer, tried) {
  if (answer && !AGAIN.has(answer.status)) return null;
  const told = Number.parseInt(answer?.headers.get("Retry-After") ?? "", 10) * 1_000;
  const least = Math.min(LONGEST_MS, Number.isNaN(told) ? 250 * 2 ** tried : told);
  return least * (1 + Math.random() / 4);
}

function result(answer, text, read) {
  let said;
  try {
    said = JSON.parse(text);
    if (answer.ok) return read(said);
  } catch { /* something else is at this address */ }
  if (answer.ok || !said) throw new HmxError("no_answer", "not what the memory service says: check the address", answer.status);
  throw new HmxError(said.reason ?? said.error?.code ?? "unknown", said.detail ?? said.error?.message ?? "", answer.status, said);
}

/** With a key, under which a capture that is sent again is the same one. */
function keyed(event) {
  const own = [event, event.metadata].some(said => said?.idempotencyKey || said?.idempotency_key);
  return own ? event : { ...event, idempotencyKey: uuid() };
}

const page = name => said => ({ records: [...said[name]], cursor: said.cursor ?? undefined });

function search(asked = {}) {
  const given = new URLSearchParams(Object.entries(asked).filter(([, value]) => value != null).map(([name, value]) => [name, `${value}`]));
  return `${given}` && `?${given}`;
}

/** Of browsers only pages that came over HTTPS have `crypto.randomUUID`, and Node 18 has none. */
export function uuid() {
  return globalThis.crypto?.randomUUID?.() ??
    "10000000-1000-4000-8000-100000000000".replace(/[018]/g, c => (c ^ ((Math.random() * 16) >> (c / 4))).toString(16));
}
