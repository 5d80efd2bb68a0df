// Middleware of the Vercel AI SDK: puts memory before the model, and tells memory what users, model and tools said.
//
//   const model = wrapLanguageModel({ model: openai("gpt-5"), middleware: hmxMiddleware() });
//
// A session is a conversation: `providerOptions: { hmx: { session: "…" } }` of a call, else `session` of the
// middleware, else one for the process.

import { HmxMemory, digest, saysFailed, written } from "./agent-memory.js";
import { uuid } from "./client.js";

export { HmxMemory };

const EDGES = 4_096; // points of conversations that are remembered

/** `run` makes the keys of what is told: the same calls under the same name are told once. */
export function hmxMiddleware({ memory = new HmxMemory(), session, run = uuid() } = {}) {
  const answered = new Map(); // point of a conversation → how often the model has answered there
  const packs = new Map(); // session → what was recalled for its last prompt of a user

  const sessionOf = params => params.providerOptions?.hmx?.session ?? session ?? memory.session;

  /** Tells what is new in a prompt. Everything up to the model's last words was told before. */
  async function tellPrompt(params) {
    const said = params.prompt.filter(message => message.role !== "system");
    const point = await digest(run, sessionOf(params), said.map(compact));
    const key = `${point}/${answered.get(point) ?? 0}`;
    const fresh = said.slice(said.findLastIndex(message => message.role === "assistant") + 1);
    for (const [at, message] of fresh.entries()) {
      if (message.role === "user") memory.said(sessionOf(params), "user", textOf(message.content), `${key}/${at}`);
      else for (const part of message.content) tellResult(params, part, `${key}/${at}`);
    }
    return { key, done: () => remember(answered, point, (answered.get(point) ?? 0) + 1) };
  }

  function tellResult(params, part, key) {
    if (part.type !== "tool-result") return;
    const { value, failed } = outcome(part);
    memory.returned(sessionOf(params), part.toolCallId, part.toolName, value, failed, `${key}/${part.toolCallId}`);
  }

  function tellPart(params, part, key) {
    const at = sessionOf(params);
    if (part.type === "text") memory.said(at, "assistant", part.text, key);
    else if (part.type === "tool-call") memory.called(at, part.toolCallId, part.toolName, part.input, key);
    else if (part.type === "tool-result" && !part.preliminary) tellResult(params, part, key);
  }

  return {
    specificationVersion: "v3",

    async transformParams({ params }) {
      const at = sessionOf(params);
      if (params.prompt.at(-1)?.role === "user" || failure(params.prompt) || !packs.has(at))
        remember(packs, at, await memory.recall(question(params.prompt), at));
      const pack = packs.get(at);
      if (!pack) return params;
      const first = params.prompt.findIndex(message => message.role !== "system");
      const place = first < 0 ? params.prompt.length : first;
      return { ...params, prompt: params.prompt.toSpliced(place, 0, { role: "system", content: pack }) };
    },

    async wrapGenerate({ doGenerate, params }) {
      const { key, done } = await tellPrompt(params);
      try {
        const result = await doGenerate();
        for (const [i, part] of result.content.entries()) tellPart(params, part, `${key}/said/${i}`);
        done();
        return result;
      } catch (error) {
        memory.failed(sessionOf(params), error, `${key}/error`);
        throw error;
      }
    },

    async wrapStream({ doStream, params }) {
      const { key, done } = await tellPrompt(params);
      const texts = new Map();
      let parts = 0;
      const said = part => tellPart(params, part, `${key}/said/${parts++}`);
      const watch = new TransformStream({
        transform(chunk, controller) {
          if (chunk.type === "text-delta") texts.set(chunk.id, (texts.get(chunk.id) ?? "") + chunk.delta);
          else if (chunk.type === "text-end") said({ type: "text", text: texts.get(chunk.id) ?? "" });
          else if (chunk.type === "error") memory.failed(sessionOf(params), chunk.error, `${key}/error`);
          else if (chunk.type === "finish") done();
          else said(chunk);
          controller.enqueue(chunk);
        },
      });
      try {
        const { stream, ...rest } = await doStream();
        return { stream: stream.pipeThrough(watch), ...rest };
      } catch (error) {
        memory.failed(sessionOf(params), error, `${key}/error`);
        throw error;
      }
    },
  };
}

function remember(map, name, value) {
  map.delete(name);
  map.set(name, value);
  if (map.size > EDGES) map.delete(map.keys().next().value);
}

/** What of a message tells one conversation from another; pictures and files are left out. */
function compact({ role, content }) {
  const parts = content.map(({ type, text, toolCallId, input, output }) => [type, text, toolCallId, input ?? output]);
  return [role, written(parts)];
}

function outcome({ output, result, isError }) {
  switch (output?.type) {
    case undefined: return { value: result, failed: isError === true }; // of a tool that the provider ran
    case "execution-denied": return { value: output.reason ?? "the user refused the call", failed: true };
    case "content": return { value: textOf(output.value), failed: false };
    default: return { value: output.value, failed: output.type.startsWith("error") };
  }
}

function textOf(content) {
  return content.filter(part => part.type === "text").map(part => part.text).join("\n");
}

/** What a tool has just said of its failure. */
function failure(prompt) {
  const last = prompt.at(-1);
  if (last?.role !== "tool") return "";
  const ended = last.content.filter(part => part.type === "tool-result").map(outcome);
  const told = value => (typeof value === "string" ? value : written(value));
  const bad = ended.filter(({ value, failed }) => failed || saysFailed(Object(value) === value ? value : { text: value }));
  return bad.map(({ value }) => told(value).slice(0, 500)).join("\n");
}

function question(prompt) {
  const asked = prompt.findLast(message => message.role === "user");
  return [asked ? textOf(asked.content) : "", failure(prompt)].filter(Boolean).join("\n");
}
