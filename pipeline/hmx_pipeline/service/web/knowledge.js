// What memory knows: the list, one record with the rulings on it, and erasure.

import { erase, knowledge as record, known, rule, who } from "./api.js";
import { badge, card, code, confidence, field, fixed, folded, into, link, make, number, plural, soft, table, when, words } from "./dom.js";
import { sources } from "./trace.js";

const KINDS = ["memory", "policy", "entity", "relation", "conflict"];
const STATUSES = { "what holds": ["active", "unresolved"], "what was replaced": ["superseded", "resolved"], "what was withdrawn": ["withdrawn"] };
const SOON_MS = 1000, TRIES = 60;
const kept = { tenant: null, form: null };

export function knowledge(place, id, subject) {
  id ? into(place, () => shown(place, id)) : listed(place, subject);
}

// The form stays when the view changes.
function listed(place, subject) {
  const rows = make("div", { "aria-live": "polite" });
  if (kept.tenant !== who.tenant + who.key) Object.assign(kept, { tenant: who.tenant + who.key, form: filters() });
  const { form } = kept;
  if (subject !== undefined) form.elements.subject.value = subject;
  const look = () => into(rows, () => page(new FormData(form)));
  form.onsubmit = event => { event.preventDefault(); look(); };
  form.onchange = event => event.target.matches("select") && look();
  place.append(card("What memory knows", soft("Facts, rules, relations and conflicts, from what was said. Open one to confirm, correct or retract it."),
    form, rows), erasing());
  look();
}

function filters() {
  const choice = (name, title, options) => make("label", {}, `${title} `, make("select", { name }, options));
  return make("form", {}, make("div", { class: "fields" },
    field("text", "Words", { type: "search", size: 24, placeholder: "all of them in the text" }),
    choice("kind", "Kind", [new Option("any", ""), ...KINDS.map(name => new Option(name, name))]),
    choice("status", "Show", Object.keys(STATUSES).map(name => new Option(name, name))),
    field("subject", "Of", { size: 12, placeholder: "anybody", title: "A subject: what is private to this person" }),
    field("session", "Session", { size: 12, placeholder: "any" }),
    make("button", {}, "Find")));
}

async function page(form, cursor) {
  const asked = new URLSearchParams({ limit: 50, ...(cursor && { cursor }) });
  for (const name of ["text", "kind", "subject", "session"]) if (form.get(name)) asked.set(name, form.get(name));
  for (const status of STATUSES[form.get("status")]) asked.append("status", status);
  const found = await known(asked);
  const rest = make("div");
  if (!found.records.length && !found.cursor) return soft("Nothing like this is known.");
  const more = found.cursor && make("button", { type: "button", class: "quiet", onclick: () => {
    more.remove();
    into(rest, () => page(form, found.cursor));
  } }, "Show more");
  return [table("Knowledge", [
    { title: "text", cell: one => link(one.text, "knowledge", one.record_id) },
    { title: "kind", keep: true, cell: one => words(one.body.memory ?? one.kind) },
    { title: "of", cell: one => one.subject_id ?? make("span", { class: "soft" }, "shared") },
    { title: "said by", keep: true, cell: one => words(one.body.authority ?? "–") },
    { title: "status", keep: true, cell: one => badge(one.status) },
    { title: "confidence", cell: one => confidence(one.confidence) },
    { title: "since", cell: one => when(one.validity?.start ?? one.created_at) },
  ], found.records), more, rest].filter(Boolean);
}

async function shown(place, id) {
  const it = await record(id);
  const until = it.validity?.end ? [", until ", when(it.validity.end)] : [];
  const { authority, ruling } = it.body;
  return [
    card(it.text,
      make("p", {}, badge(it.status), ` ${words(it.kind)}, since `, when(it.validity?.start ?? it.created_at), ...until),
      soft(`Confidence ${fixed(it.confidence)}. `, it.subject_id ? `Private to ${it.subject_id}. ` : "Shared by the tenant. ",
        authority ? `Said by: ${words(authority)}. ` : "", code(`hmx explain ${id}`), " says what would outweigh it."),
      ruling && make("p", {}, badge(`${ruling.verb}ed`),
        ruling.by ? ` by ${ruling.by === "operator" ? "an operator" : "its user"}` : " by a ruling", ruling.reason ? `, because: ${ruling.reason}` : ""),
      it.superseded_by && make("p", {}, "It was replaced: ", link("what holds now", "knowledge", it.superseded_by)),
      folded("as JSON", () => make("pre", { tabindex: "0" }, JSON.stringify(it, null, 2)))),
    ruled(place, it),
    card("What it rests on", sources(it, "knowledge")),
  ];
}

// The three rulings. Each is an event in the log, and memory follows soon after.
function ruled(place, it) {
  const said = make("div", { "aria-live": "polite" });
  const form = make("form", { onsubmit: event => {
    event.preventDefault();
    const verb = event.submitter.value, given = new FormData(form);
    const body = Object.fromEntries((verb === "correct" ? ["text", "value", "reason"] : ["reason"])
      .map(name => [name, given.get(name)]).filter(([, value]) => value));
    into(said, async () => {
      await rule(it.record_id, verb, body);
      follow(place, it, TRIES);
      return soft("The ruling is in the log; memory follows in a moment.");
    });
  } },
  make("div", { class: "fields" },
    field("text", "New text", { size: 40, maxlength: 2000, placeholder: "the whole statement that holds instead" }),
    field("value", "New value", { size: 16, maxlength: 500, placeholder: "the value alone" }),
    field("reason", "Reason", { size: 24, maxlength: 200, placeholder: "optional" })),
  make("p", { class: "rulings" }, ["correct", "confirm", "retract"].map(verb => // the first is what Enter does
    make("button", { value: verb, class: verb === "correct" ? "" : "quiet" }, verb))));
  return card("Rule on it", soft("Correct: the new text or value holds instead. Confirm: it holds, whatever others say. ",
    "Retract: it stays out until it is confirmed."), form, said);
}

// Shows the record again once memory has followed the ruling.
async function follow(place, it, tries) {
  const now = await record(it.record_id).catch(() => it);
  if (!place.isConnected) return;
  if (tries && JSON.stringify(now) === JSON.stringify(it)) setTimeout(follow, SOON_MS, place, it, tries - 1);
  else into(place, () => shown(place, it.record_id));
}

// Erasure asks for the name twice, because nothing brings back what it takes.
function erasing() {
  const said = make("div", { "aria-live": "polite" });
  const form = make("form", { onsubmit: event => {
    event.preventDefault();
    const given = new FormData(form), scope = given.get("scope");
    form.elements.again.setCustomValidity(given.get("name") === given.get("again") ? "" : "The two names differ.");
    if (!form.reportValidity()) return;
    into(said, async () => receipt(await erase({ [scope]: given.get("name") })));
  }, oninput: () => form.elements.again.setCustomValidity("") },
  make("div", { class: "fields" },
    make("label", {}, "Everything of the ", make("select", { name: "scope" }, new Option("subject", "subject"), new Option("session", "session"))),
    field("name", "named", { required: true, size: 16 }), field("again", "again", { required: true, size: 16, title: "The same name, so that nothing else is erased" }),
    make("button", { class: "danger" }, "Erase")));
  return card("Erase", folded("erase everything of a subject or session, for good", () => [
    soft("It leaves every answer within seconds and the compacted topics with their next compaction. Nothing brings it back; a signed receipt says what went."),
    form, said]));
}

function receipt(it) {
  if (!it.signature) return make("p", {}, `${it.erasure_id}: ${it.detail}`);
  const file = URL.createObjectURL(new Blob([JSON.stringify(it, null, 2)], { type: "application/json" }));
  const gone = Object.entries(it.gone).filter(([, count]) => count).map(([kind, count]) => plural(count, words(kind))).join(", ");
  const stay = Object.values(it.restated).reduce((sum, count) => sum + count, 0);
  return [make("p", {}, `Erased: ${gone || "nothing that memory still held"}.`, stay ? ` ${number(stay)} more were compiled again without it.` : ""),
    soft(make("a", { href: file, download: `receipt-${it.erasure_id}.json` }, "Keep the receipt"), "; ", code("hmx receipt verify FILE"), " checks it anywhere."),
    folded("as JSON", () => make("pre", { tabindex: "0" }, JSON.stringify(it, null, 2)))];
}
