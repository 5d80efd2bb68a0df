// Stage tables: one row per session, one row per pattern.

import { rows, subjects } from "./api.js";
import { ago, badge, card, code, confidence, field, into, link, make, number, soft, table, words } from "./dom.js";
import { session } from "./session.js";

const SESSIONS = [
  { title: "session", sort: "session", cell: row => link(row.session, "sessions", row.session) },
  { title: "released", sort: "released", number: true, cell: row => row.released },
  { title: "waiting", sort: "waiting", number: true, cell: row => row.waiting || "–" },
  { title: "next sequence", number: true, cell: row => row.next === null ? "–" : number(row.next) },
  { title: "open segment", sort: "segment", number: true, cell: row => row.segment || "–" },
  { title: "run", number: true, cell: row => row.run + 1 },
  { title: "changed", sort: "changed", cell: row => ago(row.changed) },
];
const PATTERNS = [
  { title: "pattern", sort: "title", cell: row => row.artifact ? link(row.title, "artifact", row.artifact) : make("span", { class: "soft" }, row.key) },
  { title: "kind", keep: true, cell: row => words(row.type) },
  { title: "status", keep: true, cell: row => row.status
    ? make("span", {}, badge(row.status), ` v${row.version}`, row.pending ? " · to be compiled" : "")
    : make("span", { class: "soft" }, row.pending ? "to be compiled" : "–") },
  { title: "confidence", sort: "confidence", cell: row => row.status ? confidence(row.confidence) : "" },
  { title: "contributions", sort: "contributions", number: true, cell: row => row.contributions || "–" },
  { title: "sessions", sort: "sessions", number: true, cell: row => row.sessions || "–" },
  { title: "changed", sort: "changed", cell: row => ago(row.changed) },
];

export const sessions = (place, id, event) => id ? session(place, id, event) : view(place, {
  name: "sessions", title: "Sessions", columns: SESSIONS, sort: "changed",
  about: "The tenant's sessions in state. A waiting session has a gap: it waits for the missing sequence until the reorder window ends.",
  empty: "No session of this tenant is in state. Sessions leave it after 24 h of silence.",
  none: text => ["No session in state has this in its name. ", link(`Look for the session ${text} in the log`, "sessions", text)],
});
export const patterns = place => view(place, {
  name: "patterns", title: "Patterns", columns: PATTERNS, sort: "confidence",
  about: "The tenant's patterns: contributions of segments, and the newest artifact compiled from them. " +
    "The kinds run, course, touched, ending and conduct only collect what others are compiled from: task schemas have no contributions of their own.",
  empty: "No pattern of this tenant has evidence yet: segments contribute when they close, or when `hmx wait` flushes them.",
  none: () => ["No pattern has this in its title, kind or key."],
});

// The people of the tenant; what is private to one of them is behind the name.
export function people(place, limit = 50) {
  const shown = make("div");
  place.append(card("People", soft("Whose sessions these are: the subjects that events name. What a person says stays with this person, until three say the same or the tenant is a team."), shown));
  into(shown, async () => {
    const { total, complete, subjects: found } = await subjects(Number(limit));
    if (!found.length) return soft("No event of this tenant names a subject: ", code("metadata.subject_id"), " does.");
    return [table("People", [
      { title: "subject", cell: one => link(one.subject_id, "knowledge", "", one.subject_id) },
      { title: "sessions", number: true, cell: one => one.sessions },
    ], found),
    complete ? "" : soft("Counted over some of the sessions: there are more."),
    found.length < total && limit < 500 ? make("p", {}, link(`Show more of ${number(total)}`, "people", "500")) : ""];
  });
}

function view(place, { name, title, columns, sort, about, empty, none }) {
  let by = sort, limit = 50;
  const shown = make("div", { "aria-live": "polite" });
  const form = make("form", { onsubmit: event => { event.preventDefault(); load(); } },
    make("div", { class: "fields" }, field("text", "Find", { type: "search", size: 24, placeholder: "part of a name", oninput: () => load() })));
  let asked = 0;
  const load = () => into(shown, async () => {
    const text = form.elements.text.value.trim(), mine = ++asked;
    const { totals, complete, rows: found } = await rows(name, by, limit, text);
    if (mine !== asked) return [...shown.childNodes];
    if (!found.length && text) return soft(...none(text));
    if (!found.length && complete) return soft(empty, " ", code("hmx publish sessions.ndjson"), " adds some.");
    const all = totals[name];
    return [
      make("p", { class: "totals" }, Object.entries(totals).map(([what, count]) =>
        make("span", {}, make("b", {}, number(count)), ` ${words(what)}`))),
      ...complete ? [] : [soft("From the newest records of the state topic; ", code(`hmx table ${name}`), " reads all.")],
      table(title, columns, found, { sorted: by, by: other => { by = other; load(); } }),
      found.length < all && limit < 500
        ? make("button", { type: "button", class: "quiet", onclick: () => { limit = 500; load(); } },
          all > 500 ? `Show 500 of ${number(all)}` : `Show all ${number(all)}`)
        : soft(found.length < all ? `${number(all - found.length)} more: ` : "", found.length < all ? code(`hmx table ${name}`) : ""),
    ];
  });
  place.append(card(title, soft(about), form, shown));
  load();
}
