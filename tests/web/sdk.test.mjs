// The JavaScript client on a whole pipeline's service without keys, HMX_SERVICE_URL, and on a server that refuses.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import test from "node:test";

const { HmxClient, HmxError, HmxMemory, message } = await import("@hmx/client");
const url = process.env.HMX_SERVICE_URL;
const fails = (work, reason, status) =>
  assert.rejects(work, error => error instanceof HmxError && error.reason === reason && error.status === status || assert.fail(error));

async function until(found) {
  for (const end = Date.now() + 60_000; ;) {
    const value = await found();
    if (value) return value;
    assert.ok(Date.now() < end, `not within a minute: ${found}`);
    await new Promise(done => setTimeout(done, 100));
  }
}

/** A server that gives these answers one after the other, then 200; and when it was asked. */
async function serving(answers, work) {
  const asked = [];
  const server = createServer((_, response) => {
    asked.push(Date.now());
    const [status, headers = {}, body = '{"records":[]}'] = answers.shift() ?? [200];
    if (status) response.writeHead(status, headers).end(body);
  });
  await new Promise(done => server.listen(0, "127.0.0.1", done));
  try {
    await work(`http://127.0.0.1:${server.address().port}`, asked);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test("the types name what is there, and all of it", () => {
  const types = readFileSync(new URL("node_modules/@hmx/client/index.d.ts", import.meta.url), "utf8");
  for (const made of [new HmxClient(), new HmxMemory({ url })]) {
    const [, block] = types.match(new RegExp(`class ${made.constructor.name} \\{\n(.*?)\n\\}`, "s"));
    const named = [...block.matchAll(/^  (?:readonly )?(\w+)[(:]/gm)].map(found => found[1]);
    const there = [...Object.getOwnPropertyNames(made), ...Object.getOwnPropertyNames(Object.getPrototypeOf(made))];
    assert.deepEqual(new Set(named), new Set(there));
  }
});

test("it reads its own writes, and corrects and erases them", async () => {
  const memory = new HmxClient({ url: `${url}/`, tenant: "js-sdk" });
  const said = message("s1", 0, "The staging cluster is in Frankfurt. \ud83d");
  const { accepted, rejected } = await memory.append(said, { event_type: "message" });
  assert.deepEqual([accepted, rejected.map(one => [one.index, one.reason])], [1, [[1, "missing_field"]]]);
  const { after } = await memory.append(said);
  const pack = await memory.pack("Where is the staging cluster?", { after, token_budget: 600, subject_id: undefined });
  assert.ok(pack.entries.some(entry => entry.content.includes("Frankfurt")) && pack.text.includes("Frankfurt") && pack.complete);
  const { record_id: id } = await until(async () => (await memory.knowledge({ limit: 1, cursor: undefined })).records[0]);
  assert.equal((await memory.record(id)).record_id, id);
  assert.ok(await memory.correct(id, { value: "Oslo", reason: "it moved" }));
  assert.deepEqual((await memory.artifacts()).records, []);
  assert.ok(await memory.erase({ session: "s1" }));
});

test("captures go out in as many requests as they need, and each is counted", async () => {
  const memory = new HmxClient({ url, tenant: "js-captures" });
  const capture = n => ({ type: "message", sessionId: n ? "s1" : "", payload: { role: "user", text: `n ${n}` } });
  assert.equal(await memory.capture(Array.from({ length: 1_101 }, (_, n) => capture(n))), 1);
});

test("a capture whose answer is lost is sent again under the same key, its own where it has one", async () => {
  const told = [];
  const server = createServer(async (request, response) => {
    told.push(JSON.parse((await request.toArray()).join("")).events);
    if (told.length === 1) response.destroy();
    else response.end('{"summary":{"errors":0}}');
  });
  await new Promise(done => server.listen(0, "127.0.0.1", done));
  const said = { type: "message", sessionId: "s1", payload: { role: "user", text: "hello" } };
  const captures = [said, said, { ...said, idempotencyKey: "k1" }, { ...said, metadata: { idempotencyKey: "k2" } }];
  assert.equal(await new HmxClient({ url: `http://127.0.0.1:${server.address().port}` }).capture(captures), 0);
  server.closeAllConnections();
  server.close();
  assert.deepEqual(told[0], told[1]);
  const keys = told[0].map(event => event.idempotencyKey);
  assert.ok(keys[0] && keys[1] && keys[0] !== keys[1], `${keys}`);
  assert.deepEqual(keys.slice(2), ["k1", undefined]);
});

test("an agent's memory recalls what it told", async () => {
  const memory = new HmxMemory({ url, tenant: "js-agent" });
  memory.said("c1", "user", "The staging cluster is in Frankfurt.", "1");
  assert.ok(await memory.flush(30_000));
  assert.deepEqual([memory.lost, memory.refused], [0, 0]);
  assert.match(await until(() => memory.recall("Where is the staging cluster?")), /^The lines .*\n\n> .*Frankfurt/s);
});

test("errors say why", async () => {
  const memory = new HmxClient({ url, tenant: "js-sdk" });
  await fails(memory.artifact("no/body"), "not_found", 404);
  await assert.rejects(memory.append({ event_type: "message" }, {}), error => error.status === 422 && error.raw.results.length === 2);
  await fails(new HmxClient({ url: "http://127.0.0.1:1", tries: 1 }).knowledge(), "no_answer", 0);
  await serving([[200, {}, "<html>"], [502, {}, "<html>"], [200, {}, "{}"]], async other => {
    for (const status of [200, 502, 200]) await fails(new HmxClient({ url: other }).knowledge(), "no_answer", status);
  });
});

test("what is refused for now is tried again, as late as the service says, within the deadline", async () => {
  await serving([[429, { "Retry-After": "1" }], [503]], async (other, asked) => {
    assert.deepEqual(await new HmxClient({ url: other }).knowledge(), { records: [], cursor: undefined });
    assert.equal(asked.length, 3);
    assert.ok(asked[1] - asked[0] >= 999 && asked[2] - asked[1] >= 999, `${asked}`);
  });
  await serving([[503, { "Retry-After": "5" }, '{"reason":"unavailable"}']], async (other, asked) => {
    await fails(new HmxClient({ url: other, timeoutMs: 2_000 }).knowledge(), "unavailable", 503);
    assert.equal(asked.length, 1);
  });
  await serving([[0]], async other => {
    const began = Date.now();
    await fails(new HmxClient({ url: other, timeoutMs: 300 }).knowledge(), "no_answer", 0);
    assert.ok(Date.now() - began < 2_000);
  });
});
