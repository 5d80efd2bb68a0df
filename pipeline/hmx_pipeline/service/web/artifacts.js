// Artifact views: counts by type and status, lists, and one artifact with its versions and evidence.

import { artifact as one, artifacts as list, counts } from "./api.js";
import { ago, badge, card, code, confidence, fixed, folded, into, link, make, marked, number, plural, readable, share, soft, table, when, words } from "./dom.js";
import { sources } from "./trace.js";

const STATUSES = ["active", "draft", "superseded", "deprecated", "archived"];
const CHAIN = 25;

export function artifacts(place, type = "", status = "active") {
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
      facts.length ? soft("Also known from statements: ", link(facts.map(([name, count]) => `${number(count)} ${words(name)}`).join(", "), "knowledge"), ".") : null]
      .filter(Boolean);
  });
  into(listed, async () => {
    const rows = make("div");
    const found = await list(type, status);
    const title = `${type ? words(type) : "All types"}, ${status}`;
    if (!found.total) return card(title, soft(`No artifact is ${status}. `, link("Active artifacts", "artifacts")));
    add(rows, found, type, status);
    return card(title, rows);
  });
}

function add(place, page, type, status) {
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
      add(next, await list(type, status, page.cursor), type, status);
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
        code(`hmx explain ${id}`), " shows what was checked."), sources(it)),
    ].filter(Boolean);
  });
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
