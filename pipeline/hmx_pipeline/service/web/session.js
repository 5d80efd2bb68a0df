// One session: its events on a time axis, its segments as bands, and what was learnt from each.

import { events as whole, session as one } from "./api.js";
import { badge, card, folded, into, link, make, number, plural, seconds, soft, when, words } from "./dom.js";

const LEGEND = { message: "message", call: "action or result", decision: "decision", feedback: "feedback", failed: "failed", odd: "late, or came again" };
const LONG = 6; // a gap of more than so many median gaps is drawn shortened

const failed = event => event.ok === false || event.role === "error";

export function session(place, id, named) {
  const shown = make("div");
  place.append(make("p", { class: "soft" }, link("← all sessions", "sessions")), shown);
  into(shown, async () => {
    const told = await one(id, 0);
    const rest = make("div");
    requestAnimationFrame(() => named && place.querySelector("details[open]")?.scrollIntoView({ block: "center" }));
    return [...part(id, told, named), more(id, told.next, rest), rest];
  });
}

function more(id, next, rest) {
  if (next === undefined) return "";
  const button = make("button", { type: "button", class: "quiet", onclick: () => {
    button.remove();
    into(rest, async () => {
      const told = await one(id, next), after = make("div");
      return [...part(id, told), more(id, told.next, after), after];
    });
  } }, "Show the following events");
  return button;
}

function part(id, told, named) {
  const { events, segments } = told;
  const times = events.map(each => each.at);
  const first = new Date(Math.min(...times)), last = new Date(Math.max(...times)), begin = events[0].index;
  const marks = { late: events.filter(each => each.late).length, again: events.reduce((sum, each) => sum + each.again, 0),
    failed: events.filter(failed).length };
  const agents = [...new Set(events.map(each => each.agent_id))];
  return [
    card(begin ? `Session ${id} from event ${number(begin + 1)}` : `Session ${id}`,
      make("p", { class: "totals" },
        make("span", {}, make("b", {}, plural(events.length, "event"))),
        make("span", {}, make("b", {}, seconds((last - first) / 1000)), " long"),
        make("span", {}, make("b", {}, plural(segments.length, "segment"))),
        marks.failed > 0 && make("span", { class: "warn" }, make("b", {}, number(marks.failed)), " failed"),
        marks.late > 0 && make("span", { class: "warn" }, make("b", {}, number(marks.late)), " late"),
        marks.again > 0 && make("span", { class: "warn" }, make("b", {}, number(marks.again)), " came again")),
      soft(`${plural(agents.length, "agent")}: ${agents.join(", ")}.`),
      axis(events, segments),
      make("p", { class: "soft ends" }, when(first.toISOString()), when(last.toISOString())),
      make("ul", { class: "legend" }, Object.entries(LEGEND).map(([name, title]) => make("li", {}, make("i", { class: `dot ${name}` }), title)))),
    ...banded(events, segments).map(([segment, some]) => band(id, segment, some, told.complete, named)),
  ];
}

// The axis: a dot for each event, a band for each segment. Long silences are shortened and marked.
function axis(events, segments) {
  const times = events.map(each => each.at / 1000);
  const gaps = times.slice(1).map((time, n) => Math.max(0, time - times[n]));
  const median = [...gaps].sort((a, b) => a - b)[gaps.length >> 1] || 1;
  const at = gaps.reduce((all, gap) => [...all, all.at(-1) + median / 4 + Math.min(gap, LONG * median)], [0]);
  const left = n => `${100 * at[n] / (at.at(-1) || 1)}%`;
  const strip = make("div", { class: "axis", role: "img", "aria-label": `${plural(events.length, "event")} in ${plural(segments.length, "segment")} on a time axis` });
  let begin = 0;
  for (const [segment, some] of banded(events, segments)) {
    const shown = make("i", { class: `span ${segment?.outcome ?? "open"}`, title: segment ? `segment: ${segment.outcome}` : "no segment" });
    shown.style.left = left(begin);
    shown.style.width = `${100 * (at[begin + some.length - 1] - at[begin]) / (at.at(-1) || 1)}%`;
    strip.append(shown);
    begin += some.length;
  }
  gaps.forEach((gap, n) => {
    if (gap <= LONG * median) return;
    const silence = make("i", { class: "silence", title: `${seconds(gap)} of silence` });
    silence.style.left = `calc((${left(n)} + ${left(n + 1)}) / 2)`;
    strip.append(silence);
  });
  events.forEach((each, n) => {
    const dot = make("i", { class: `dot ${each.role}${failed(each) ? " failed" : ""}${each.late || each.again ? " odd" : ""}`,
      title: `${words(each.event_type)} ${each.actor} ${each.text}`.slice(0, 200),
      onclick: () => document.getElementById(`e${each.index}`).scrollIntoView({ block: "center" }) });
    dot.style.left = left(n);
    strip.append(dot);
  });
  return strip;
}

// Events before the first segment, or without any, form a band of their own.
function banded(events, segments) {
  const by = new Map(segments.map(each => [each.segment_id, each]));
  const bands = [];
  for (const event of events) {
    if (!bands.length || by.has(event.event_id)) bands.push([by.get(event.event_id), []]);
    bands.at(-1)[1].push(event);
  }
  return bands;
}

function band(id, segment, events, complete, named) {
  const title = `${segment ? "Segment" : "No segment"}: events ${number(events[0].index + 1)} to ${number(events.at(-1).index + 1)}`;
  return make("section", { class: `card band ${segment?.outcome ?? "open"}`, "aria-label": title },
    make("h2", {}, title, " ", segment ? badge(segment.outcome) : badge("open")),
    segment ? learnt(segment, complete)
      : soft("Nothing was learnt from these yet: a segment contributes when it closes, and not every one does."),
    make("h3", {}, "What happened"),
    make("ol", { class: "timeline", "aria-label": "Events" }, events.map(each => line(id, each, events[0], named))));
}

function learnt({ learnt: found, contributions }, complete) {
  const count = Object.values(contributions).reduce((sum, each) => sum + each, 0);
  const kinds = Object.entries(contributions).map(([name, each]) => `${number(each)} ${words(name)}`).join(", ");
  return make("div", {},
    make("h3", {}, "What rests on it"),
    found.length ? make("ul", { class: "learnt", "aria-label": "Learnt from it" }, found.map(each => make("li", {},
      make("span", { class: "soft" }, `${words(each.type)} `), link(each.text, each.kind, each.id), " ", each.status === "active" ? "" : badge(each.status))))
      : soft("No artifact and no fact rests on it", complete ? "." : " among those that were searched."),
    soft(`${plural(count, "contribution")} to patterns: ${kinds}.`));
}

function clock(passed) {
  const all = Math.round(Math.abs(passed)), hours = Math.floor(all / 3600), minutes = Math.floor(all / 60) % 60;
  const two = part => String(part).padStart(2, "0");
  return `${passed < 0 ? "−" : "+"}${hours ? `${number(hours)}:${two(minutes)}` : minutes}:${two(all % 60)}`;
}

function line(id, event, first, named) {
  const what = make("span", {},
    make("span", { class: "at", title: event.timestamp }, clock((event.at - first.at) / 1000)), " ",
    make("b", {}, words(event.event_type)), " ", event.actor && make("span", { class: "actor" }, event.actor), event.actor && event.text ? ": " : "", event.text,
    event.ok === false && badge("failed"), event.late && badge("late"), event.again > 0 && badge(`came ${event.again + 1} times`),
    event.redacted && badge("secret removed"), event.run > 0 && badge(`run ${event.run + 1}`));
  const here = event.event_id === named;
  return make("li", { class: `${event.role}${failed(event) ? " failed" : ""}`, id: `e${event.index}` }, folded(what, async () => {
    const found = await whole(event.event_id, id);
    return found.map(each => [soft(`Event ${each.event_id}, sequence ${number(each.sequence)}, ${each.agent_id}, `, when(each.timestamp)),
      make("pre", { tabindex: "0" }, JSON.stringify(each, null, 2))]).flat();
  }, here));
}
