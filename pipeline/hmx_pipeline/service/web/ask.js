// Question form, and the context pack for the question.

import { contribution, pack, who } from "./api.js";
import { card, code, copied, field, fixed, folded, into, link, make, number, plural, share, soft, stacked, table, words } from "./dom.js";
import { compared, keeps } from "./compare.js";
import { evidence, origin } from "./trace.js";

const STRATEGIES = ["ranked", "recency_biased", "breadth_first", "depth_first", "fingerprint_guided"];
const kept = { tenant: null, form: null, answer: null };

// The form and its answer stay when the view changes. #ask/QUESTION asks at once.
export function ask(place, question) {
  if (kept.tenant !== who.tenant + who.key) Object.assign(kept, { tenant: who.tenant + who.key, ...fresh() });
  place.append(card("Ask memory as an agent does", kept.form), kept.answer);
  const query = kept.form.elements.query;
  if (question && question !== query.value) {
    query.value = question;
    kept.form.requestSubmit();
  }
  if (!kept.answer.childNodes.length) kept.form.querySelector("textarea").focus();
}

function fresh() {
  const answer = make("div", { "aria-live": "polite" });
  const form = make("form", { class: "ask", onsubmit: event => { event.preventDefault(); into(answer, () => shown(new FormData(form))); } },
    make("textarea", { name: "query", required: true, "aria-label": "Question", rows: 3, maxlength: 16384,
      placeholder: "What does the agent want to do or know?",
      onkeydown: event => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit(); } }),
    make("div", { class: "fields" },
      field("subject", "For", { placeholder: "everybody", size: 14, title: "A subject: finds what is private to this person too" }),
      field("budget", "Token budget", { type: "number", min: 1, max: 1000000, value: 1200, required: true }),
      make("button", {}, "Ask")),
    make("details", {}, make("summary", {}, "options: session, filters, strategy"), make("div", { class: "fields" },
      field("session", "Requesting session", { placeholder: "none", size: 14 }),
      field("agent", "Requesting agent", { placeholder: "any", size: 12 }),
      field("tags", "Only with tags", { placeholder: "any, comma-separated", size: 16 }),
      field("as_of", "As of", { placeholder: "now, or 2026-03-14T03:00:00Z", size: 24 }),
      make("label", {}, "Strategy ", make("select", { name: "strategy" }, STRATEGIES.map(name => make("option", { value: name }, words(name))))),
      make("label", {}, make("input", { type: "checkbox", name: "fill", value: "budget" }), " fill the budget"),
      ...["superseded", "archived"].map(name => make("label", {}, make("input", { type: "checkbox", name: "include", value: name }), ` ${name} too`)))));
  return { form, answer };
}

async function shown(form) {
  history.replaceState(null, "", `#ask/${encodeURIComponent(form.get("query"))}`);
  const tags = form.get("tags").split(",").map(tag => tag.trim()).filter(Boolean);
  const found = await pack({
    query: form.get("query"), token_budget: Number(form.get("budget")), strategy: form.get("strategy"), explain: true, as_text: true,
    ...(form.has("fill") && { fill: form.get("fill") }),
    ...(form.get("subject") && { subject_id: form.get("subject") }),
    ...(form.get("session") && { session_id: form.get("session") }), ...(form.get("agent") && { agent_id: form.get("agent") }),
    ...(form.get("as_of") && { as_of: form.get("as_of") }), ...(form.has("include") && { include: form.getAll("include") }),
    ...(tags.length && { tags }),
  });
  const why = found.metadata.explained;
  const entry = new Map(why.entries.map(one => [one.rank, one])), drop = new Map(why.drops.map(one => [one.rank, one]));
  const paste = card("To paste", copied(found.metadata.as_text)), two = compared(found);
  return [summary(found), ...keeps() ? [two, paste] : [paste, two], ...guidance(found), ...sections(found, entry), dropped(found, drop)].filter(Boolean);
}

function summary({ token_budget: budget, assembly_metadata: about, entries, metadata }) {
  const used = Object.entries(budget.section_budgets).filter(([, one]) => one.used);
  const asked = about.query_classification;
  return card("The pack",
    make("p", { class: "totals" },
      make("span", {}, make("b", {}, `${number(budget.used)} of ${number(budget.total_budget)}`), " tokens"),
      make("span", {}, make("b", {}, `${number(about.included_count)} of ${number(about.candidate_count)}`), " candidates"),
      make("span", {}, make("b", {}, asked.intent), " question"),
      make("span", {}, make("b", {}, `${fixed(about.assembly_duration_ms, 1)} ms`), " in the service")),
    stacked(used.map(([name, one]) => [name, one.used]), Math.max(budget.total_budget, budget.used), `${share(budget.used, budget.total_budget)} of the budget is used`),
    make("ul", { class: "legend" }, used.map(([name, one]) => make("li", {}, make("i", { class: `key fill ${name}` }),
      `${words(name)} ${number(one.used)} of ${number(one.budget)}`))),
    metadata.memory_complete === false ? make("p", { class: "warn" }, `Memory is ${metadata.memory_filling.percent} % filled, so this pack may be incomplete. Ask again later.`) : null,
    metadata.memory_cut ? make("p", { class: "warn" }, "Retention had deleted some records before memory was filled: ",
      Object.entries(metadata.memory_cut).map(([topic, count]) => `${number(count)} of ${topic}`).join(", "), ".") : null,
    entries.length ? null : make("p", {}, "Memory has no answer. Use other words, or browse the ", link("artifacts", "artifacts"),
      ". What people say is private to them: name one in the field For."));
}

function guidance({ workflow_hints: hints, decision_constraints: constraints, metadata }) {
  const precedents = metadata.precedents ?? {};
  const steps = hints?.suggested_next_steps ?? [];
  const where = hints?.current_step ? `step ${hints.current_step} of ${hints.total_steps ?? "?"}` : "";
  return [
    steps.length || hints?.blockers.length ? card("What comes next", where && soft(where),
      make("ol", {}, steps.map(step => make("li", {},
        precedents[step.artifact_id] ? folded(step.description, async () => [evidence(await contribution(step.artifact_id))])
          : link(step.description, "artifact", step.artifact_id),
        make("span", { class: "soft" }, ` ${fixed(step.confidence)}${step.tools.length ? `, ${step.tools.join(", ")}` : ""}`)))),
      hints.blockers.length ? [make("h3", {}, "Blocked by"), make("ul", {}, hints.blockers.map(one => make("li", {}, one)))] : null) : null,
    constraints?.length ? card("Constraints", make("ul", {}, constraints.map(one => make("li", {},
      link(one.constraint, one.override_allowed ? "artifact" : "knowledge", one.artifact_id),
      make("span", { class: "soft" }, ` ${one.condition ? `when ${one.condition}, ` : ""}${fixed(one.confidence)}${one.override_allowed ? "" : ", may not be overridden"}`))))) : null,
  ];
}

// Explains an entry's rank: the parts of its score, and the words it shares with the question.
function because({ relevance_score: score }, why) {
  const parts = Object.entries(why?.score ?? {}).map(([name, value]) => `${name} ${fixed(value)}`).join(", ");
  return soft(`score ${fixed(score)}${parts && `: ${parts}`}${why?.matched.length ? `; words ${why.matched.join(", ")}` : ""}`);
}

function sections({ entries, token_budget: budget, metadata }, why) {
  const names = [...new Set(entries.map(entry => entry.section))];
  return names.map(name => card(words(name),
    soft(`${number(budget.section_budgets[name].used)} of ${number(budget.section_budgets[name].budget)} tokens`),
    ...entries.filter(entry => entry.section === name).map(entry => make("article", { class: name },
      make("p", { class: "said" }, entry.content),
      make("p", { class: "soft" }, `${words(entry.source_type)}, ${plural(entry.token_estimate, "token")}, ` +
        `confidence ${fixed(entry.provenance.confidence)}, rests on ${plural(entry.provenance.evidence_count, entry.source_type === "artifact" ? "run" : "event")}`),
      because(entry, why.get(entry.rank)),
      folded("where it comes from", () => origin(entry, metadata.sources ?? {}))))));
}

function dropped({ dropped_entries: found, token_budget: budget }, why) {
  if (!found?.length) return null;
  const place = { artifact: "artifact", memory: "knowledge", policy: "knowledge", entity: "knowledge", relation: "knowledge", conflict: "knowledge" };
  return card("Left out", folded(`${plural(budget.dropped_count, "candidate")}, and why`, () => table("Candidates that were left out", [
    { title: "rank", number: true, cell: one => one.rank },
    { title: "why", keep: true, cell: one => make("span", { title: why.get(one.rank)?.because }, words(one.drop_reason)) },
    { title: "in with", number: true, cell: one => more(why.get(one.rank)?.budget) },
    { title: "section", cell: one => words(one.section) },
    { title: "score", number: true, cell: one => fixed(one.relevance_score) },
    { title: "tokens", number: true, cell: one => one.token_estimate },
    { title: "source", cell: one => make("span", {}, `${words(one.source_type)} `,
      place[one.source_type] ? link(one.source_id, place[one.source_type], one.source_id) : code(one.source_id)) },
  ], found)));
}

// A button that asks again with the budget that would include the candidate.
function more(tokens) {
  if (!tokens) return "–";
  return make("button", { type: "button", class: "more", title: `ask again with ${number(tokens)} tokens`, onclick: () => {
    kept.form.elements.budget.value = tokens;
    kept.form.requestSubmit();
  } }, number(tokens));
}
