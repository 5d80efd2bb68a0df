// Artifact views: counts by type and status, lists, and one artifact with its versions and evidence.

import { archive, artifact as one, artifacts as list, counts } from "./api.js";
import { ago, badge, card, code, confidence, field, fixed, folded, into, link, make, marked, number, plural, readable, share, soft, table, when, words } from "./dom.js";
import { sources } from "./trace.js";

const STATUSES = ["active", "draft", "superseded", "deprecated", "archived"];
const CHAIN = 25, SOON_MS = 1000, TRIES = 60;

export function artifacts(place, type = "", status = "active", text = "") {
  const many = make("div"), listed = make("div");
  place.append(card("What was learnt", many), listed);
  into(many, async () => {
    const { artifacts: found, knowledge } = await counts();
    const types = Object.keys(found);
    if (!types.length) return soft("Nothing is compiled yet: it takes several sessions on the same task. ",
      code("hmx explain --missing \"words\""), " shows what patterns lack.");
    const columns = [{ title: "type", cell: name => link(words(name), "artifacts", name, status) },
      ...STATUSES.map(title => ({ title, number: true, cell: name => {
        const count = found[name][title];
        const chosen = title === status && (!type || name === type);
        return count ? make("a", { href: `#artifacts/${encodeURIComponent(name)}/${title}`, class: chosen && "chosen" }, number(count)) : "–";
      } }))];
    const facts = Object.entries(knowledge).filter(([, count]) => count);
    return [table("Artifacts by type and status", columns, types),
      facts.length ? soft("Also known from statements: ", link(facts.map(([name, count]) => plural(count, `${words(name)} record`)).join(", "), "knowledge"), ".") : null]
      .filter(Boolean);
  });
  const rows = make("div", { "aria-live": "polite" });
  const form = make("form", { onsubmit: event => { event.preventDefault(); look(); } }, make("div", { class: "fields" },
    field("text", "Words", { type: "search", size: 24, value: text, placeholder: "all of them in title or summary" }), make("button", {}, "Find")));
  const look = () => {
    const wanted = form.elements.text.value.trim();
    history.replaceState(null, "", `#artifacts/${[type, status, wanted].map(encodeURIComponent).join("/")}`);
    return into(rows, async () => {
      const found = await list(type, status, wanted), shown = make("div");
      if (!found.artifacts.length && !found.cursor) {
        return soft(wanted ? "No such artifact has these words. " : `No artifact is ${status}. `, link("Active artifacts", "artifacts"));
      }
      add(shown, found, type, status, wanted);
      return shown;
    });
  };
  listed.append(card(`${type ? words(type) : "All types"}, ${status}`, form, rows));
  look();
}

function add(place, page, type, status, text) {
  place.append(table("Artifacts", [
    { title: "title", cell: one => link(one.title, "artifact", one.artifact_id) },
    { title: "type", keep: true, cell: one => words(one.artifact_type) },
    { title: "confidence", cell: one => confidence(one.confidence) },
    { title: "runs", number: true, cell: one => one.observed_count ?? "–" },
    { title: "went well", number: true, cell: one => one.success_rate === undefined ? "–" : share(one.success_rate, 1) },
    { title: "version", number: true, cell: one => one.version },
    { title: "changed", cell: one => ago(one.updated_at ?? one.created_at) },
  ], page.artifacts));
  if (!page.cursor) return;
  const rest = make("div");
  const more = make("button", { type: "button", class: "quiet", onclick: () => {
    more.remove();
    into(rest, async () => {
      const next = make("div");
      add(next, await list(type, status, text, page.cursor), type, status, text);
      return next;
    });
  } }, "Show more");
  place.append(more, rest);
}

export function artifact(place, id) {
  into(place, async () => {
    const it = await one(id);
    const rate = it.success_rate === undefined ? "" : `, ${share(it.success_rate, 1)} went well`;
    const why = it.metadata.transition?.cause ?? it.metadata.transition?.reason;
    return [
      card(it.title,
        make("p", {}, badge(it.status), ` ${words(it.artifact_type)}, version ${it.version}, since `, when(it.created_at)),
        make("p", { class: "lead" }, marked(it.summary)),
        soft(`Confidence ${fixed(it.confidence)}; ${plural(it.observed_count ?? it.source_events.length, it.observed_count === undefined ? "event" : "run")}${rate}.`,
          why ? ` ${it.status}: ${typeof why === "string" ? why : JSON.stringify(why)}.` : ""),
        versions(it)),
      card("What it says", readable(it.content),
        folded("as JSON", () => make("pre", { tabindex: "0" }, JSON.stringify(it, null, 2)))),
      it.supersedes ? changes(it) : null,
      card("What it rests on", soft(`${plural(it.source_memory_ids.length, "contribution")} of sessions, ${plural(it.source_events.length, "event")}. `,
        code(`hmx explain ${id}`), " shows what was checked."), sources(it, "artifact")),
      it.status === "active" ? retiring(place, it) : null,
    ].filter(Boolean);
  });
}

// Archives the artifact: an event in the log, which memory follows soon after.
function retiring(place, it) {
  const said = make("div", { "aria-live": "polite" });
  const form = make("form", { onsubmit: event => {
    event.preventDefault();
    into(said, async () => {
      await archive(it.artifact_id, form.elements.reason.value);
      follow(place, it.artifact_id, TRIES);
      return soft("The decision is in the log; memory follows in a moment.");
    });
  } }, make("div", { class: "fields" }, field("reason", "Reason", { size: 32, maxlength: 200, placeholder: "optional" }),
    make("button", { class: "danger" }, "Archive")));
  return card("Archive", folded("retire this artifact, for good", () => [
    soft("Packs stop showing it, and its pattern produces no new one. There is no way back."), form, said]));
}

async function follow(place, id, tries) {
  const now = await one(id).catch(() => null);
  if (!place.isConnected) return;
  if (tries && now?.status === "active") setTimeout(follow, SOON_MS, place, id, tries - 1);
  else artifact(place, id);
}

// What this version says that the one before did not, and the other way round, path by path.
function changes(it) {
  const place = make("div");
  into(place, async () => {
    const before = await one(it.supersedes).catch(() => null);
    if (!before) return soft("Memory no longer holds the version before.");
    const was = said(before), is = said(it);
    const lacking = (path, from, to) => [...from.get(path) ?? []].filter(value => !to.get(path)?.has(value));
    const lines = [...new Set([...was.keys(), ...is.keys()])].flatMap(path =>
      [["del", was, is], ["ins", is, was]].flatMap(([tag, from, to]) =>
        lacking(path, from, to).map(value => make(tag, {}, make("span", { class: "soft" }, path), " ", marked(value)))));
    return lines.length ? make("div", { class: "diff" }, lines) : soft("It says the same; its evidence or status changed.");
  });
  return card("What changed since the version before", place);
}

// Path → the values of a version there. Places in lists do not count, so that what moved stays the same.
function said(it) {
  const found = new Map();
  const walk = (value, path) => {
    if (value === null || value === undefined || value === "") return;
    if (typeof value === "object") for (const [name, each] of Object.entries(value)) walk(each, Array.isArray(value) ? path : [...path, words(name)]);
    else found.set(path.join(" › "), (found.get(path.join(" › ")) ?? new Set()).add(String(value)));
  };
  walk({ title: it.title, summary: it.summary, confidence: fixed(it.confidence), runs: it.observed_count, ...it.content }, []);
  return found;
}

// Links to the earlier and later versions that memory still holds.
function versions(it) {
  const place = make("div");
  into(place, async () => {
    const before = await walk(it, "supersedes"), after = await walk(it, "superseded_by");
    const chain = [...before.reverse(), it, ...after];
    if (chain.length === 1) return soft("This is the only version in memory.");
    return make("ol", { class: "chain", "aria-label": "Versions" }, chain.map(each => make("li", {},
      make("a", { href: `#artifact/${encodeURIComponent(each.artifact_id)}`, class: "version", "aria-current": each === it ? "page" : null },
        make("b", {}, `v${each.version}`), badge(each.status), make("span", { class: "soft" }, fixed(each.confidence))))));
  });
  return place;
}

async function walk(it, way) {
  const found = [], seen = new Set([it.artifact_id]);
  for (let at = it[way]; at && !seen.has(at) && found.length < CHAIN; at = found.at(-1)[way]) {
    seen.add(at);
    const next = await one(at).catch(() => null);
    if (!next) break;
    found.push(next);
  }
  return found;
}
