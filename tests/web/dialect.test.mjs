// The contract of the public clients, held from JavaScript. No package registry has the public JavaScript client: where
// it was built from its repository, HMX_JS_SDK names its module; else the stand-in beside this file speaks.
// HMX_SERVICE_URL is a whole pipeline's service without keys; HMX_REDIS_URL and HMX_TOPIC_PREFIX say where its memory is.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createConnection } from "node:net";
import test from "node:test";

const { Hippocortex, HippocortexError } = await import(process.env.HMX_JS_SDK ?? "./client.mjs");
const service = process.env.HMX_SERVICE_URL;
const TENANT = `js-${randomUUID()}`;
const client = (tenant = TENANT) => new Hippocortex({ apiKey: `hx_test_${tenant}`, baseUrl: `${service}/v1/`, timeoutMs: 120_000 });
const hx = client();
const said = (sessionId, content, metadata) => ({ type: "message", sessionId, payload: { role: "user", content }, metadata });
const GOAL = "Deploy the payments service to staging", ERROR = "namespace payments not found";

// A deployment that fails once, is mended and then goes well, as the client's users write it.
function task(sessionId) {
  const call = (tool_name, input) => ({ type: "tool_call", sessionId, payload: { tool_name, input } });
  const result = (tool_name, output, success) => ({ type: "tool_result", sessionId, payload: { tool_name, output, success } });
  return [
    said(sessionId, GOAL),
    call("build_image", { service: "payments" }), result("build_image", "built"),
    call("apply_manifest", { env: "staging" }), result("apply_manifest", ERROR, false),
    { type: "error", sessionId, payload: { error_type: "NotFound", message: ERROR } },
    call("create_namespace", { name: "payments" }), result("create_namespace", "created", true),
    call("apply_manifest", { env: "staging" }), result("apply_manifest", "applied", true),
    said(sessionId, "Thanks, that works perfectly"),
  ];
}

// Created by runs up to one that is whole: a busy machine may need several.
async function learnt(options) {
  for (let created = 0; ;) {
    const run = await hx.learn(options);
    created += run.artifacts.created;
    if (run.status === "completed") return { ...run.artifacts, created };
    assert.equal(run.status, "partial");
  }
}

async function native(path, tenant = TENANT) {
  const answer = await fetch(`${service}/v1/hmx/${path}`, { headers: { "X-HMX-Tenant": tenant } });
  assert.equal(answer.status, 200, path);
  return answer.json();
}

// As FLUSHALL does, for this pipeline alone.
async function empty() {
  const { hostname, port, pathname } = new URL(process.env.HMX_REDIS_URL);
  const script = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end return 'emptied'";
  const socket = createConnection({ host: hostname, port });
  for (const words of [["SELECT", pathname.slice(1) || "0"], ["EVAL", script, "0", `${process.env.HMX_TOPIC_PREFIX}*`]]) {
    socket.write(`*${words.length}\r\n${words.map(word => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`);
  }
  let answers = "";
  for await (const part of socket) if ((answers += part).includes("emptied") || answers.includes("-ERR")) break;
  assert.match(answers, /^\+OK\r\n\$7\r\nemptied/);
}

const fails = (work, code, statusCode) => assert.rejects(work, error =>
  error instanceof HippocortexError && error.code === code && error.statusCode === statusCode || assert.fail(`${error.code} ${error.statusCode}`));

test("what is captured becomes valid events whose sequence only rises", async () => {
  const results = [];
  for (let n = 0; n < 20; n++) results.push(await hx.capture(said("rising", `n ${n}`, { agentId: "smith" })));
  assert.deepEqual(new Set(results.map(one => one.status)), new Set(["ingested"]));
  await learnt();
  const events = await Promise.all(results.map(one => native(`events/${one.eventId}?session=rising`)));
  assert.deepEqual(events.map(event => event.content.content), results.map((_, n) => `n ${n}`));
  assert.ok(events.every((event, n) => !n || events[n - 1].sequence < event.sequence));
  assert.deepEqual([events[0].tenant_id, events[0].agent_id, events[0].event_type], [TENANT, "smith", "message"]);
});

test("five hundred captures at once are each an event of its own, in one order, though Redis is emptied half-way", async () => {
  const capture = async n => {
    if (n === 250) await empty();
    return hx.capture(said("crowd", `n ${n}`, { idempotencyKey: `k${n}` }));
  };
  const numbers = Array.from({ length: 500 }, (_, n) => n), some = numbers.filter(n => n % 7 === 1);
  const results = await Promise.all(numbers.map(capture));
  const again = await Promise.all(some.map(capture));
  assert.deepEqual(again.map(one => [one.status, one.eventId]), some.map(n => ["duplicate", results[n].eventId]));
  await learnt();
  const events = await Promise.all(results.map(one => native(`events/${one.eventId}?session=crowd`)));
  assert.deepEqual(events.map(event => event.content.content), numbers.map(n => `n ${n}`));
  const answer = await fetch(`${service}/v1/hmx/events?session=crowd`, { headers: { "X-HMX-Tenant": TENANT } });
  const released = (await answer.text()).trim().split("\n").map(line => JSON.parse(line));
  assert.deepEqual(new Set(released.map(event => event.event_id)), new Set(results.map(one => one.eventId)));
  assert.equal(released.length, 500);
  assert.ok(released.every((event, n) => !n || released[n - 1].sequence < event.sequence), "released in the order of their sequences");
});

test("a key used twice names one event", async () => {
  const sent = said("keyed", "only once", { idempotencyKey: "k1" });
  const [first, again] = [await hx.capture(sent), await hx.capture(sent)];
  assert.deepEqual([first.status, again.status, again.eventId], ["ingested", "duplicate", first.eventId]);
});

test("a batch leaves out what is not valid, and has an end", async () => {
  const found = await hx.captureBatch([said("batch", "one"), said("batch", "two"), said("", "none")]);
  assert.deepEqual([found.results.length, found.summary], [2, { total: 3, ingested: 2, duplicates: 0, errors: 1 }]);
  assert.equal((await hx.captureBatch([])).summary.total, 0);
  const many = Array.from({ length: 1000 }, (_, n) => said("thousand", `${n}`));
  assert.equal((await hx.captureBatch(many)).summary.ingested, 1000);
  await fails(hx.captureBatch([...many, many[0]]), "validation_error", 422);
});

test("what is captured is learnt once, and comes back in its sections within the budget", async () => {
  for (let n = 0; n < 8; n++) assert.equal((await hx.captureBatch(task(`task ${n}`))).summary.ingested, 11);
  assert.ok((await learnt({ scope: "full" })).created > 0);
  assert.equal((await learnt()).created, 0);

  const whole = await hx.synthesize(GOAL);
  assert.equal(whole.budget.limit, 4000);
  assert.ok(whole.budget.used > 0 && whole.budget.used <= 4000);
  assert.equal(whole.budget.entriesIncluded, whole.entries.length);
  assert.ok(whole.entries.some(entry => entry.section === "procedures"));
  assert.deepEqual((await hx.synthesize(GOAL)).entries, whole.entries);

  const some = await hx.synthesize(`${GOAL}: ${ERROR}`, { sections: ["failures"], maxTokens: 300, includeProvenance: false });
  assert.deepEqual([...new Set(some.entries.map(entry => entry.section))], ["failures"]);
  assert.ok(some.budget.used <= some.budget.limit && some.budget.limit === 300);
  assert.ok(some.entries.every(entry => entry.provenance === undefined));
  const sure = await hx.synthesize(GOAL, { minConfidence: .6 });
  assert.ok(sure.entries.every(entry => entry.confidence >= .6));

  for (const { sourceId, artifactType } of whole.entries.flatMap(entry => entry.provenance)) {
    const source = await hx.getArtifact(sourceId);
    assert.equal(source.id, sourceId);
    assert.ok(artifactType === undefined || artifactType === source.type);
  }
});

test("a walk along the cursor visits every artifact once", async () => {
  await learnt();
  const ids = [];
  let page = await hx.listArtifacts({ sort: "confidence", order: "desc", limit: 1 });
  const { total } = page.pagination;
  for (ids.push(...page.artifacts); page.pagination.hasMore; ids.push(...page.artifacts)) {
    page = await hx.listArtifacts({ sort: "confidence", order: "desc", limit: 1, cursor: page.pagination.cursor });
  }
  assert.ok(total > 1);
  assert.equal(new Set(ids.map(one => one.id)).size, total);
  assert.ok(ids.every((one, n) => !n || ids[n - 1].confidence >= one.confidence));
  const playbooks = await hx.listArtifacts({ type: "failure_playbook" });
  assert.deepEqual([...new Set(playbooks.artifacts.map(one => one.type))], ["failure_playbook"]);
});

test("metrics tell what was sent", async () => {
  const counted = client(`${TENANT}-counted`);
  await counted.captureBatch([said("m", "a"), said("m", "b", { idempotencyKey: "k" }), said("", "c")]);
  await counted.capture(said("m", "b", { idempotencyKey: "k" }));
  await counted.synthesize("anything");
  const { usage, period, quota } = await counted.getMetrics({ period: "1h", granularity: "minute" });
  const { total, ingested, duplicates, errors } = usage.events;
  assert.deepEqual([total, ingested, duplicates, errors, usage.syntheses.total], [4, 2, 1, 1, 1]);
  assert.ok(period.start < period.end && quota.eventsUsed === 2);
});

test("errors come by their code", async () => {
  await fails(new Hippocortex({ apiKey: "wrong", baseUrl: `${service}/v1` }).capture(said("s", "x")), "unauthorized", 401);
  await fails(hx.getArtifact("no/body"), "not_found", 404);
  await fails(hx.synthesize(""), "validation_error", 422);
  await fails(hx.capture({ type: "message", sessionId: "s" }), "validation_error", 422);
  await fails(hx.listArtifacts({ limit: 101 }), "validation_error", 422);
  await fails(hx.vaultQuery("password"), "not_found", 501);
  await fails(hx.vaultReveal("v 1"), "not_found", 501);
  await fails(new Hippocortex({ apiKey: `hx_test_${TENANT}`, baseUrl: "http://127.0.0.1:1/v1" }).learn(), "network_error", 0);
});

test("two keys never see each other's memory", async () => {
  const other = client(`${TENANT}-other`);
  const [mine] = (await hx.listArtifacts({ limit: 1 })).artifacts;
  assert.equal((await other.listArtifacts()).pagination.total, 0);
  assert.deepEqual((await other.synthesize(GOAL)).entries, []);
  await fails(other.getArtifact(mine.id), "not_found", 404);
});
