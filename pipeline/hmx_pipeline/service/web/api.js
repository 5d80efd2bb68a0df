// Calls of the service's routes, as a tenant or with an API key.

const ADVICE = {
  tenant_required: "Choose a tenant above.",
  unauthorized: "This service needs an API key: enter one above, or create one with `hmx keys new TENANT`.",
  forbidden: "Enter a key above with this permission: figures of all tenants and dead letters need the scope admin.",
  rate_limited: "Wait a minute.",
  kafka_unavailable: "See /readyz and `hmx status`, then try again.",
  redis_unavailable: "Memory is in Redis: see /readyz and `hmx status`.",
  busy: "Try again in a moment.",
  not_found: "It may have been erased, or belong to another tenant.",
};

class Problem extends Error {
  constructor(title, detail, reason, status, members = {}) {
    super(detail);
    Object.assign(this, { title, reason, status, members, advice: ADVICE[reason] });
  }
}

export const who = { tenant: "", key: sessionStorage.getItem("key") ?? "" };

async function call(path, { body, headers = {}, signal } = {}) {
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (who.key) headers.Authorization = `Bearer ${who.key}`;
  // Header values are bytes; the service reads them as UTF-8.
  else if (who.tenant) headers["X-HMX-Tenant"] = String.fromCharCode(...new TextEncoder().encode(who.tenant));
  let answer;
  try {
    answer = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, signal, body: JSON.stringify(body) });
  } catch {
    throw new Problem("The service does not answer", "The request did not reach it: check that it runs.", "away", 0);
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Problem(said.title ?? `HTTP ${answer.status}`, said.detail ?? "", said.reason, answer.status, said);
}

export const ask = async (path, how) => (await call(path, how)).json().catch(() => ({}));

// Calls `on(name, data, id)` for each server-sent event until the stream ends, or the signal aborts it. EventSource sends no headers.
export async function stream(from, after, signal, on) {
  const headers = after ? { "Last-Event-ID": after } : {};
  const answer = await call(`/v1/hmx/stream?from=${from}`, { headers, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let held = "";;) {
    const { done, value } = await reader.read();
    if (done) return;
    const frames = (held + value).split("\n\n");
    held = frames.pop();
    for (const frame of frames) {
      const field = Object.fromEntries(frame.split("\n").map(line => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
      on(field.event ?? "", field.data ? JSON.parse(field.data) : null, field.id);
    }
  }
}

const part = encodeURIComponent;
export const overview = () => ask("/v1/hmx/overview");
export const tenants = async () => (await ask("/v1/hmx/tenants")).tenants;
export const counts = () => ask("/v1/hmx/counts");
export const letters = (reason, limit) => ask(`/v1/hmx/dead-letters?${new URLSearchParams({ reason, limit })}`);
export const replay = ({ partition, offset }) => ask(`/v1/hmx/dead-letters/${partition}/${offset}/replay`, { body: {} });
export const send = event => ask("/v1/hmx/events", { body: event });
export const subjects = limit => ask(`/v1/hmx/subjects?limit=${limit}`);
export const rows = (name, sort, limit, text) => ask(`/v1/hmx/tables/${name}?${new URLSearchParams({ sort, limit, text })}`);
export const session = (id, begin) => ask(`/v1/hmx/sessions/${part(id)}?begin=${begin}`);
export const artifact = id => ask(`/v1/hmx/artifacts/${part(id)}`);
export const knowledge = id => ask(`/v1/hmx/knowledge/${part(id)}`);
export const contribution = id => ask(`/v1/hmx/contributions/${part(id)}`);
export const pack = asked => ask("/v1/hmx/context-packs", { body: asked });

export const known = asked => ask(`/v1/hmx/knowledge?${asked}`);
export const rule = (id, verb, body) => ask(`/v1/hmx/knowledge/${part(id)}/${verb}`, { body });
export const erase = body => ask("/v1/hmx/erasures", { body });

export const archive = (id, reason) => ask(`/v1/hmx/artifacts/${part(id)}/archive`, { body: { reason } });

export function artifacts(type, status, text, cursor) {
  const asked = new URLSearchParams({ status, limit: 50, text, ...(type && { type }), ...(cursor && { cursor }) });
  return ask(`/v1/hmx/artifacts?${asked}`);
}

// Several sessions may share an id; without a session all of their events are returned.
export async function events(id, session) {
  try {
    return [await ask(`/v1/hmx/events/${part(id)}${session ? `?session=${part(session)}` : ""}`)];
  } catch (error) {
    if (error.reason !== "ambiguous") throw error;
    const found = await Promise.all(error.members.sessions.map(one => events(id, one)));
    return found.flat();
  }
}
