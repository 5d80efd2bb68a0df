// What the public JavaScript client sends, and what it makes of an answer, where the client itself is not to be had.
// Bodies are as JSON.stringify leaves them: what is undefined is left out.

export class HippocortexError extends Error {
  constructor(code, message, statusCode, details) {
    super(message);
    Object.assign(this, { name: "HippocortexError", code, statusCode, details });
  }
}

export class Hippocortex {
  #config;

  constructor(config) {
    this.#config = { timeoutMs: 30_000, ...config, baseUrl: config.baseUrl.replace(/\/+$/, "") };
  }

  capture = event => this.#ask("POST", "/capture", event);
  captureBatch = events => this.#ask("POST", "/capture/batch", { events });
  learn = ({ scope = "incremental", minPatternStrength, artifactTypes } = {}) =>
    this.#ask("POST", "/learn", { scope, options: { minPatternStrength, artifactTypes } });
  synthesize = (query, options) => this.#ask("POST", "/synthesize", { query, options });
  listArtifacts = asked => this.#ask("GET", `/artifacts${search(asked, "type", "status", "sort", "order", "limit", "cursor")}`);
  getArtifact = id => this.#ask("GET", `/artifacts/${encodeURIComponent(id)}`);
  getMetrics = asked => this.#ask("GET", `/usage-metrics${search(asked, "period", "granularity")}`);
  vaultQuery = (query, options = {}) => this.#ask("POST", "/vault/query", { query, ...options });
  vaultReveal = id => this.#ask("POST", `/vault/query/${encodeURIComponent(id)}/reveal`, {});

  async #ask(method, path, body) {
    const headers = {
      Authorization: `Bearer ${this.#config.apiKey}`, "Content-Type": "application/json", Accept: "application/json",
      "X-Client": "hippocortex-js-sdk", "X-Hippocortex-SDK-Version": "js/1.2.0",
    };
    const signal = AbortSignal.timeout(this.#config.timeoutMs);
    const answer = await fetch(this.#config.baseUrl + path, { method, headers, signal, body: JSON.stringify(body) })
      .catch(error => { throw new HippocortexError("network_error", `${error.message}: ${error.cause?.code ?? error.cause}`, 0); });
    const said = await answer.json();
    if (said.ok && !said.error) return said.data;
    throw new HippocortexError(said.error?.code ?? "unknown_error", said.error?.message ?? "", answer.status, said.error?.details);
  }
}

function search(asked = {}, ...names) {
  const given = new URLSearchParams(names.filter(name => asked[name]).map(name => [name, String(asked[name])]));
  return given.size ? `?${given}` : "";
}
