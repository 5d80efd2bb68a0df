// Pipeline status, refreshed every few seconds while the page is visible.

import { overview as now } from "./api.js";
import { area } from "./chart.js";
import { bar, card, code, folded, link, make, number, plural, problem, seconds, share, soft, stacked, table, words } from "./dom.js";

const EVERY_MS = 5000;
const KEPT = 120;
const history = [];

export function overview(place) {
  let timer, gone = false;
  const look = async () => {
    let shown;
    try {
      const told = await now();
      if (told.at !== history.at(-1)?.at) history.push(told);
      if (history.length > KEPT) history.shift();
      shown = page(told);
    } catch (error) {
      shown = [problem(error, soft("The page retries every few seconds."))];
    }
    if (gone) return;
    replace(place, shown);
    timer = setTimeout(function again() {
      document.hidden ? timer = setTimeout(again, EVERY_MS) : look();
    }, EVERY_MS);
  };
  place.append(soft("reading …"));
  look();
  return () => { gone = true; clearTimeout(timer); };
}

// Keeps open details and the focus across a refresh.
function replace(place, shown) {
  const open = [...place.querySelectorAll("details[open] > summary")].map(summary => summary.textContent);
  const focus = place.contains(document.activeElement) ? document.activeElement.textContent : null;
  const next = make("div", { class: "rows" }, shown);
  for (const summary of next.querySelectorAll("summary")) {
    if (!open.includes(summary.textContent)) continue;
    summary.parentElement.open = true;
    summary.parentElement.dispatchEvent(new Event("toggle"));
  }
  place.replaceChildren(next);
  if (focus !== null) [...next.querySelectorAll("summary, .scroll")].find(one => one.textContent === focus)?.focus({ preventScroll: true });
}

function page(told) {
  const taken = total(told);
  if (!taken && !told.problems.length) return [tiles(told), welcome()];
  return [
    ...told.problems.map(said => problem({
      title: "The status is incomplete", message: said, advice: "Run `hmx status` on the machine of the stack.",
    })),
    tiles(told),
    make("div", { class: "columns" },
      make("div", { class: "rows" }, outcomes(told, taken), memory(told.memory ?? {}, told), processes(told.processes)), rejections(told)),
    ...Object.entries(told.stages ?? {}).map(stage),
    effects(told.effects),
  ];
}

const welcome = () => card("No events yet",
  make("p", {}, "Publish some events: ", code("hmx publish sessions.ndjson"),
    ", or send them to ", code("POST /v1/hmx/events"), ". Sample sessions: ", code("python -m hmx_pipeline.local.samples")));

// Records of the log without control records.
function total(told) {
  return told.outcomes.filter(({ name }) => name !== "control").reduce((sum, { count }) => sum + count, 0);
}
const count = (told, name) => told.outcomes.find(one => one.name === name).count;
const sum = (rows, name) => rows.reduce((all, row) => all + (row[name] ?? 0), 0);
const partitions = told => Object.entries(told.stages ?? {}).flatMap(([name, { partitions }]) =>
  partitions.map(row => ({ ...row, where: `${name} ${row.partition}` })));

function tiles(told) {
  const rates = history.slice(1).map((one, n) => {
    const passed = (new Date(one.at) - new Date(history[n].at)) / 1000;
    return Math.max(0, total(one) - total(history[n])) / passed;
  });
  const rate = rates.at(-1);
  const behind = [...partitions(told), ...Object.entries(told.memory ?? {}).map(([where, at]) => ({ ...at, where }))];
  const worst = behind.reduce((most, row) => row.lag_seconds > (most?.lag_seconds ?? 0) ? row : most, null);
  const rejected = told.rejections.reduce((all, { count }) => all + count, 0);
  const windows = told.stages?.sessions?.partitions ?? [];
  const waiting = windows.some(row => row.waiting !== null) ? count(told, "waiting") : null;
  const up = Object.values(told.processes);
  return make("div", { class: "tiles" },
    tile("Events taken", number(total(told)), rate === undefined ? "the rate follows at the next refresh" : `${rate < 10 ? rate.toFixed(1) : number(Math.round(rate))} a second`,
      rates.length > 1 ? area(rates) : null),
    tile("In memory within", ...fresh("memory", told), null),
    tile("Behind", worst ? seconds(worst.lag_seconds) : "nothing", worst
      ? `${plural(sum(behind, "lag"), "record")}; most at ${worst.where}` : "every record in Kafka is processed", null,
      worst && worst.lag_seconds > 60),
    tile("In windows", waiting === null ? "–" : number(waiting), waiting === null
      ? unknown() : waiting ? "events wait behind gaps, at most for the window" : "no event waits behind a gap", null),
    tile("Dead letters", number(rejected), rejected ? `${share(rejected, total(told))} of the events` : "nothing was rejected", null, rejected > 0),
    tile("Processes", up.length ? `${up.filter(one => one.ready).length} of ${up.length}` : "–",
      up.length ? "are ready" : unknown(), null, up.some(one => !one.ready)));
}

const unknown = () => make("span", {}, "unknown: ", code("HMX_PROCESSES"), " must name the workers");

function tile(title, value, said, chart, warns) {
  return make("div", { class: `tile${warns ? " warns" : ""}`, role: "group", "aria-label": title },
    make("h2", {}, title), make("p", { class: "value" }, value), make("p", { class: "soft" }, said), chart);
}

// Median and 99th percentile of batches since the page was opened, or of all if there were none.
function fresh(name, told) {
  const buckets = told.freshness[name];
  if (!buckets) return ["–", Object.keys(told.processes).length ? "nothing has been written yet" : unknown()];
  const first = history[0].freshness[name] ?? [];
  const lately = buckets.map(([most, n], at) => [most, n - (first[at]?.[1] ?? 0)]);
  const some = lately.at(-1)[1] > 0;
  const counts = some ? lately : buckets;
  const bound = part => counts.find(([, n]) => n >= part * counts.at(-1)[1])[0] ?? Infinity;
  return [`≤ ${seconds(bound(.5))}`,
    `for half of ${number(counts.at(-1)[1])} batches ${some ? "lately" : "so far"}; 99 % ≤ ${seconds(bound(.99))}`];
}

function outcomes(told, taken) {
  const met = told.outcomes.filter(one => one.count);
  const inputs = met.filter(one => one.name !== "control");
  return card("Outcomes of the events",
    stacked(inputs.map(({ name, count }) => [name, count]), taken, "shares of the outcomes"),
    table("Outcomes", [
      { title: "outcome", cell: one => make("span", {}, make("i", { class: `key fill ${one.name}` }), words(one.name)), keep: true },
      { title: "events", number: true, cell: one => one.count },
      { title: "share", number: true, cell: one => one.name === "control" ? "" : share(one.count, taken) },
      { title: "meaning", cell: one => make("span", { class: "soft" }, one.meaning) },
    ], met));
}

function rejections({ rejections: found }) {
  if (!found.length) return card("Dead letters", soft("Nothing was rejected. ", code("hmx validate"), " shows before publishing what would be rejected."));
  return card("Dead letters", table("Dead letters by reason", [
    { title: "reason", keep: true, cell: one => code(one.name) },
    { title: "records", number: true, cell: one => one.count },
    { title: "what to do", cell: one => make("span", { class: "soft" }, one.meaning) },
  ], found), soft(link("The tenant's dead letters", "letters"), " with what they hold. ", code("hmx dlq replay"), " sends back what would be accepted now."));
}

function stage([name, { partitions: rows, lag }]) {
  const most = Math.max(1, ...rows.map(row => row.lag));
  const idle = rows.filter(row => !row.owner).length;
  return card(`Stage ${name}`,
    make("p", { class: "totals" },
      make("span", {}, make("b", {}, number(sum(rows, "position"))), " records taken"),
      make("span", {}, make("b", {}, number(lag)), " behind"),
      rows.some(row => row.waiting !== null) && make("span", {}, make("b", {}, number(sum(rows, "waiting"))), name === "sessions" ? " events waiting" : " patterns to compile"),
      rows.some(row => row.state !== null) && make("span", {}, make("b", {}, number(sum(rows, "state"))), " records of state"),
      idle ? make("span", { class: "warn" }, make("b", {}, number(idle)), ` partition${idle > 1 ? "s" : ""} without a worker`) : null),
    folded(`${plural(rows.length, "partition")} of ${name}`, () => table(`Partitions of the stage ${name}`, [
      { title: "partition", number: true, cell: row => row.partition },
      { title: "position", number: true, cell: row => row.position },
      { title: "behind", number: true, cell: row => make("span", {}, bar(row.lag, most, "share of the most"), ` ${number(row.lag)}`) },
      { title: "for", number: true, cell: row => row.lag ? seconds(row.lag_seconds) : "–" },
      { title: "waiting", number: true, cell: row => row.waiting ?? "–" },
      { title: "state", number: true, cell: row => row.state ?? "–" },
      { title: "worker", cell: row => row.owner ?? make("span", { class: "warn" }, "nobody") },
    ], rows)));
}

function memory(places, told) {
  const topics = {};
  for (const [where, at] of Object.entries(places)) (topics[where.split("/")[0]] ??= []).push(at);
  if (!Object.keys(topics).length) return card("Redis", soft("unknown"));
  return card("Redis", told.memory_complete === false ? make("p", { class: "warn" }, told.memory_said) : null, table("Topic positions in Redis", [
    { title: "topic", keep: true, cell: ([topic]) => code(topic) },
    { title: "read", number: true, cell: ([, parts]) => sum(parts, "position") },
    { title: "behind", number: true, cell: ([, parts]) => sum(parts, "lag") },
    { title: "for", number: true, cell: ([, parts]) => sum(parts, "lag") ? seconds(Math.max(...parts.map(part => part.lag_seconds))) : "–" },
  ], Object.entries(topics)));
}

function processes(found) {
  const rows = Object.entries(found);
  if (!rows.length) return card("Processes", soft(unknown()));
  return card("Processes", table("Processes", [
    { title: "process", cell: ([name]) => name },
    { title: "is", cell: ([, one]) => make("span", { class: `badge ${one.ready ? "active" : "rejected"}` }, one.ready ? "ready" : "not ready") },
    { title: "says", cell: ([, one]) => make("span", { class: "soft" }, one.said.trim().replaceAll("\n", "; ")) },
  ], rows));
}

function effects(found) {
  if (!found.length) return null;
  return card("Other counters", folded(plural(found.length, "counter"), () => table("Effects", [
    { title: "counter", keep: true, cell: one => code(one.name) },
    { title: "times", number: true, cell: one => one.count },
    { title: "meaning", cell: one => make("span", { class: "soft" }, one.meaning) },
  ], found)));
}
