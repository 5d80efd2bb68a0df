// A shop's clerk made with the Vercel AI SDK, in the version that HMX_AI names.

import assert from "node:assert/strict";
import test from "node:test";

const { HMX_AI, HMX_ADAPTER } = process.env;
const ai = await import(HMX_AI);
const mocks = await import(`${HMX_AI}/test`);
const { z } = await import("zod");
const { HmxMemory, hmxMiddleware } = await import(HMX_ADAPTER);

const Mock = mocks.MockLanguageModelV4 ?? mocks.MockLanguageModelV3;
const steps = ai.isStepCount ?? ai.stepCountIs;
const STEPS = ["get_order", "check_policy", "refund"];
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const named = name => `${HMX_AI}-${name}`;

const text = said => ({ type: "text", text: said });
const call = (toolName, toolCallId, input) => ({ type: "tool-call", toolCallId, toolName, input: JSON.stringify(input) });
const said = (...content) => ({ content, usage, warnings: [], finishReason: { unified: "stop", raw: "stop" } });
const script = order => [...STEPS.map((name, i) => call(name, `call_${order}_${i}`, { id: order })), text(`Refunded ${order}.`)];

const tools = Object.fromEntries(STEPS.map(name => [name, ai.tool({
  inputSchema: z.object({ id: z.string() }),
  execute: async ({ id }) => {
    if (id === "closed") throw new Error("the account is closed");
    return { order: id, step: "done" };
  },
})]));

function clerk(middleware, parts) {
  const left = [...parts];
  const mock = new Mock({
    doGenerate: async () => {
      const part = left.shift();
      if (part instanceof Error) throw part;
      return said(part);
    },
  });
  return { mock, model: ai.wrapLanguageModel({ model: mock, middleware }) };
}

const ask = (model, prompt, more = {}) => ai.generateText({ model, prompt, tools, stopWhen: steps(9), maxRetries: 0, ...more });

test("runs are told, and memory stands before the model", async () => {
  const memory = new HmxMemory();
  for (let i = 0; i < 6; i++) {
    const { mock, model } = clerk(hmxMiddleware({ memory, session: named(`B${i}`) }), script(`B${i}`));
    assert.equal((await ask(model, `Refund order B${i}`, { system: "You help." })).text, `Refunded B${i}.`);
    const [own, memories, user] = mock.doGenerateCalls[0].prompt;
    assert.equal(own.content, "You help.");
    assert.match(memories.content, /^The lines that begin with `> ` are memory/);
    assert.ok(memories.content.includes("> [hmx]") && memories.content.includes("check namespace"));
    assert.equal(user.role, "user");
  }
  assert.ok(await memory.flush());
  assert.deepEqual([memory.lost, memory.refused], [0, 0]);
});

test("failures of tools and models are told, the agent sees its own", async () => {
  const memory = new HmxMemory();
  const middleware = hmxMiddleware({ memory, session: named("failing") });
  await ask(clerk(middleware, [call("refund", "c1", { id: "closed" }), text("It failed.")]).model, "Refund order closed");
  await assert.rejects(ask(clerk(middleware, [new Error("no model")]).model, "Go on"), /no model/);
  assert.ok(await memory.flush());
});

test("half a character costs no batch", async () => {
  const memory = new HmxMemory();
  memory.said(named("halves"), "user", `${"x".repeat(8_191)}😀${"y".repeat(20_000)}`, "1"); // cut within
  memory.said(named("halves"), "user", "half \ud83d", "2");
  assert.ok(await memory.flush());
  assert.deepEqual([memory.lost, memory.refused], [0, 0]);
});

test("a stream is told as it passes, whole and unchanged", async () => {
  const memory = new HmxMemory();
  const chunks = [
    { type: "stream-start", warnings: [] }, { type: "text-start", id: "1" }, { type: "text-delta", id: "1", delta: "Good " },
    { type: "text-delta", id: "1", delta: "day." }, { type: "text-end", id: "1" },
    { type: "finish", usage, finishReason: { unified: "stop", raw: "stop" } },
  ];
  const mock = new Mock({ doStream: async () => ({ stream: ai.simulateReadableStream({ chunks }) }) });
  const middleware = hmxMiddleware({ memory, session: named("stream") });
  const streamed = ai.streamText({ model: ai.wrapLanguageModel({ model: mock, middleware }), prompt: "Hello" });
  assert.equal(await streamed.text, "Good day.");
  assert.ok(await memory.flush());
});

test("what is told again under the same name adds nothing; the same words later are new", async () => {
  for (let i = 0; i < 2; i++) { // each time with a memory that remembers nothing of what was told
    const memory = new HmxMemory();
    const middleware = hmxMiddleware({ memory, run: "job-1" });
    for (let turn = 0; turn < 2; turn++) {
      const providerOptions = { hmx: { session: named("again") } };
      await ask(clerk(middleware, [text("Gladly.")]).model, "Thanks", { providerOptions });
    }
    assert.ok(await memory.flush());
  }
});

test("without the service an agent works, and what is lost is counted", async () => {
  const memory = new HmxMemory({ url: "http://127.0.0.1:1", waitingLength: 400 });
  const { mock, model } = clerk(hmxMiddleware({ memory }), script("A1"));
  assert.equal((await ask(model, "Refund order A1")).text, "Refunded A1.");
  assert.equal(mock.doGenerateCalls[0].prompt.length, 1);
  assert.equal(await memory.flush(50), false);
  assert.equal(memory.lost, 7);
});
