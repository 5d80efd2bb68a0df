// Traces an entry back to its source events.

import { artifact, contribution, events, knowledge } from "./api.js";
import { lineage } from "./lineage.js";
import { badge, folded, into, link, make, number, plural, soft, when, words } from "./dom.js";

const SHOWN = 8, MORE = 100, EVIDENCE = 50, DOTS = 24;

// The events of a pack entry, with the source that names them.
export async function origin(entry, sources) {
  if (entry.source_type === "episode") return [await lines([entry.source_id], sources[entry.source_id]?.session_id)];
  if (entry.source_type === "artifact") {
    const it = await artifact(entry.source_id);
    return [make("p", {}, `${words(it.artifact_type)}: `, link(it.title, "artifact", it.artifact_id)), lines(it.source_events)];
  }
  const it = await knowledge(entry.source_id);
  return [make("p", {}, `${words(it.kind)}: `, link(it.text, "knowledge", it.record_id)), lines(it.source_events)];
}

export function lines(ids, session) {
  const place = make("ol", { class: "events" });
  into(place, async () => {
    const first = await looked(ids.slice(0, SHOWN), session);
    return ids.length > SHOWN ? [...first, rest(ids, session)] : first;
  });
  return place;
}

function rest(ids, session) {
  const item = make("li", {}, make("button", { type: "button", class: "more", onclick: async () => {
    item.replaceWith(...await looked(ids.slice(SHOWN, MORE), session),
      ...(ids.length > MORE ? [make("li", { class: "soft" }, `and ${number(ids.length - MORE)} more`)] : []));
  } }, `and ${number(ids.length - SHOWN)} more`));
  return item;
}

async function looked(ids, session) {
  const found = await Promise.all(ids.map(id => events(id, session).catch(error => [{ event_id: id, gone: error.message }])));
  return found.flat().map(line);
}

function line(event) {
  if (event.gone) return make("li", { class: "soft" }, `${event.event_id}: ${event.gone}`);
  return make("li", {}, folded(make("span", {}, make("b", {}, event.event_type), " ", said(event.content)),
    () => [soft(when(event.timestamp), " · session ", link(event.session_id, "sessions", event.session_id, event.event_id), ` · sequence ${number(event.sequence)} · ${event.agent_id}`),
      make("pre", { tabindex: "0" }, JSON.stringify(event, null, 2))]));
}

// The most telling text of an event, on one line.
export function said(content) {
  const known = ["text", "content", "message", "error", "command", "tool_name", "tool", "path", "summary", "signal"];
  const name = known.find(name => typeof content[name] === "string" && content[name]);
  const result = content.result?.text;
  const text = name ? content[name] + (typeof result === "string" ? `: ${result}` : "") : JSON.stringify(content);
  return text.length > 140 ? `${text.slice(0, 139)}…` : text;
}

// A segment: its session, outcome and time, a dot for each event that it brought, and the events themselves.
export function evidence(it) {
  const outcome = it.outcome ?? "unknown";
  const dots = it.source_events.slice(0, DOTS).map(() => make("i", { class: "dot" }));
  return make("div", { class: `branch ${outcome}` },
    make("p", {}, link(it.session_id, "sessions", it.session_id, it.source_events[0]), " ", badge(outcome), " ", make("span", { class: "soft" }, when(new Date(it.first_at).toISOString())),
      make("span", { class: "dots", "aria-hidden": "true" }, dots)),
    folded(plural(it.source_events.length, "event"), () => lines(it.source_events, it.session_id)));
}

// The contributions that a record or artifact is made from, newest first; else its events.
export function sources(it, kind) {
  const place = make("div");
  into(place, async () => {
    const ids = it.source_memory_ids.slice(0, EVIDENCE);
    const found = (await Promise.all(ids.map(id => contribution(id).catch(() => null)))).filter(Boolean);
    if (!found.length) return it.source_events.length ? lines(it.source_events) : soft("Memory no longer holds its evidence.");
    found.sort((a, b) => b.first_at - a.first_at);
    return [make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Where it comes from" }, lineage(it, kind, found)), make("div", { class: "tree" }, found.map(evidence)),
      it.source_memory_ids.length > ids.length ? soft(`and ${number(it.source_memory_ids.length - ids.length)} more`) : ""];
  });
  return place;
}
