// Learning as it happens: events of sessions, the segments that memory learns from, and the artifacts that come of them.

import { contribution, stream } from "./api.js";
import { badge, card, fixed, link, make, number, plural, problem, soft, words } from "./dom.js";
import { said } from "./trace.js";

const SESSIONS = 12, ARTIFACTS = 30, DOTS = 60, SEGMENTS = 12, EACH = 8, RETRY_MS = 2000, SHOW_MS = 300;

const failed = event => event.content.success === false || event.event_type === "error";
const kind = type => type.startsWith("tool") || type === "file_edit" || type.startsWith("test") ? "call"
  : type === "decision" || type === "message" ? type : type.includes("feedback") ? "feedback" : "";

export function live(place) {
  const going = new AbortController();
  const state = { sessions: new Map(), artifacts: new Map(), events: 0, learnt: 0, fresh: new Set(), from: "now", after: null, way: "connects" };
  const head = make("div"), trouble = make("div", { role: "status" });
  const left = make("div"), right = make("div");
  const past = make("button", { type: "button", class: "quiet", onclick: () => follow("start") }, "Show what came before, too");
  place.append(card("Live", soft("Each event of this tenant as it is released, and each artifact as it is compiled: what agents do, and what memory makes of it."), head, past, trouble),
    make("div", { class: "columns" }, card("Sessions", left), card("Learnt", right)));

  const show = () => {
    head.replaceChildren(make("p", { class: "totals" },
      make("span", {}, make("i", { class: `pulse ${state.way}` }), state.way === "follows" ? " following" : " connecting"),
      make("span", {}, make("b", {}, number(state.events)), ` event${state.events === 1 ? "" : "s"}`),
      make("span", {}, make("b", {}, number(state.learnt)), ` artifact${state.learnt === 1 ? "" : "s"} compiled`)));
    arrange(left, state.sessions, state.fresh, row, "No event has come since you opened this view.");
    arrange(right, state.artifacts, state.fresh, compiled, "Nothing was compiled since. It takes several sessions on the same task, and a session that has ended.");
    state.fresh.clear();
  };
  const timer = setInterval(() => state.fresh.size && show(), SHOW_MS);

  function follow(from) {
    past.hidden = from === "start";
    Object.assign(state, { sessions: new Map(), artifacts: new Map(), events: 0, learnt: 0, from, after: null });
    left.replaceChildren();
    right.replaceChildren();
    listen(++round);
  }
  let round = 0, signal = null;

  // One stream at a time; it goes on where it ended, until the view is left.
  async function listen(mine) {
    signal?.abort();
    signal = new AbortController();
    while (mine === round && !going.signal.aborted) {
      state.way = "connects";
      show();
      try {
        await stream(state.from, state.after, AbortSignal.any([going.signal, signal.signal]), (name, data, id) => {
          if (state.way !== "follows") { state.way = "follows"; trouble.replaceChildren(); state.fresh.add(""); }
          state.after = id ?? state.after;
          if (name === "hmx.event") happened(state, data);
          if (name === "hmx.artifact") learnt(state, data);
          if (name === "hmx.erased") erased(state, data.artifact_id);
        });
      } catch (error) {
        if (mine !== round || going.signal.aborted) return;
        if (error.reason === "position_lost") state.after = null;
        if (error.title) trouble.replaceChildren(problem(error, soft("The view tries again every few seconds.")));
      }
      await new Promise(done => setTimeout(done, RETRY_MS));
    }
  }
  follow("now");
  return () => { going.abort(); clearInterval(timer); };
}

function keep(map, id, value, most) {
  map.delete(id);
  map.set(id, value);
  if (map.size > most) map.delete(map.keys().next().value);
}

function happened(state, event) {
  const it = state.sessions.get(event.session_id) ?? { events: 0, failed: 0, dots: [], segments: new Map() };
  it.events++;
  it.failed += failed(event) ? 1 : 0;
  it.last = event;
  it.dots.push(event);
  if (it.dots.length > DOTS) it.dots.shift();
  keep(state.sessions, event.session_id, it, SESSIONS);
  state.events++;
  state.fresh.add(event.session_id);
}

// The newest contributions of an artifact name the segments that it was compiled from.
async function learnt(state, artifact) {
  const it = { artifact, from: new Set() };
  if (artifact.supersedes) state.artifacts.delete(artifact.supersedes);
  keep(state.artifacts, artifact.artifact_id, it, ARTIFACTS);
  state.learnt++;
  state.fresh.add(artifact.artifact_id);
  await new Promise(done => setTimeout(done, RETRY_MS)); // memory follows the topics
  if (state.artifacts.get(artifact.artifact_id) !== it) return;
  const ids = artifact.source_memory_ids.slice(-EACH);
  for (const found of await Promise.all(ids.map(id => contribution(id).catch(() => null)))) {
    if (!found) continue;
    it.from.add(found.session_id);
    const session = state.sessions.get(found.session_id);
    if (!session) continue;
    const segment = session.segments.get(found.segment_id) ?? { outcome: found.outcome, events: 0, artifacts: new Map() };
    segment.events = Math.max(segment.events, found.source_events.length);
    segment.artifacts.set(artifact.artifact_id, artifact.title);
    keep(session.segments, found.segment_id, segment, SEGMENTS);
    state.fresh.add(found.session_id);
  }
  state.fresh.add(artifact.artifact_id);
}

function erased(state, id) {
  state.artifacts.delete(id);
  for (const [name, session] of state.sessions) {
    for (const segment of session.segments.values()) if (segment.artifacts.delete(id)) state.fresh.add(name);
  }
  state.fresh.add(id);
}

// Newest first. Only rows that changed are made anew, so that others can be clicked meanwhile.
function arrange(place, map, fresh, shown, none) {
  const known = new Map([...place.children].map(each => [each.dataset.id, each]));
  const rows = [...map].reverse().map(([id, it]) => {
    const old = known.get(id);
    if (old && !fresh.has(id)) return old;
    const made = shown(id, it);
    made.dataset.id = id;
    return made;
  });
  if (rows.length !== place.children.length || rows.some((each, n) => place.children[n] !== each)) {
    place.replaceChildren(...rows.length ? rows : [soft(none)]);
  }
}

function row(id, it) {
  const dots = it.dots.map(event => make("i", { class: `dot ${kind(event.event_type)}${failed(event) ? " failed" : ""}`, title: words(event.event_type) }));
  return make("article", { class: "live" },
    make("p", {}, link(id, "sessions", id), make("span", { class: "soft" }, ` ${it.last.agent_id}, ${plural(it.events, "event")}`),
      it.failed > 0 && make("span", { class: "warn" }, `, ${number(it.failed)} failed`)),
    make("p", { class: "dots", "aria-hidden": "true" }, dots),
    make("p", { class: "soft line" }, make("b", {}, words(it.last.event_type)), " ", said(it.last.content)),
    it.segments.size ? make("ul", { class: "learnt" }, [...it.segments.values()].map(segment => make("li", {},
      `segment of ${plural(segment.events, "event")} `, badge(segment.outcome), " → ",
      [...segment.artifacts].slice(0, 3).flatMap(([artifact, title], n) => [n ? ", " : "", link(title, "artifact", artifact)])))) : null);
}

function compiled(id, { artifact: it, from }) {
  return make("article", { class: "live" },
    make("p", {}, link(it.title, "artifact", id), " ", badge(it.status)),
    make("p", { class: "soft" }, `${words(it.artifact_type)}, version ${it.version}, confidence ${fixed(it.confidence)}, from ${plural(it.source_memory_ids.length, "contribution")}`,
      from.size ? [": ", [...from].slice(-3).flatMap((name, n) => [n ? ", " : "", link(name, "sessions", name)])].flat() : ""));
}
