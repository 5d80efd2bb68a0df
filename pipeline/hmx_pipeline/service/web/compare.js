// Two packs side by side: what each says that the other does not, and what moved.

import { who } from "./api.js";
import { card, make, number, plural, soft, words } from "./dom.js";

const kept = { pack: null, whose: null };
const name = ({ token_budget: budget }, asked) => `“${asked}”, ${number(budget.total_budget)} tokens`;

export const keeps = () => kept.pack !== null && kept.whose === who.tenant + who.key;

// A button that keeps the pack, below both packs if one of the same tenant is kept.
export function compared(pack) {
  const place = make("div"), whose = who.tenant + who.key, asked = pack.query_context;
  const keep = () => {
    Object.assign(kept, { pack, asked, whose });
    place.replaceChildren(soft("This pack is kept: ask again with other words, another budget or another person, and both stand here."));
  };
  const button = make("button", { type: "button", class: "quiet", onclick: keep }, "Keep this pack to compare");
  place.append(...keeps() ? [both(kept, { pack, asked }), button] : [button]);
  return card("Compare", place);
}

function both(before, now) {
  const entries = [before, now].map(({ pack }) => new Map(pack.entries.map(one => [one.source_id, one])));
  const ids = [...new Set(entries.flatMap(map => [...map.keys()]))];
  const alone = entries.map(map => ids.filter(id => map.has(id) && !entries.every(one => one.has(id))).length);
  return make("div", {},
    make("p", {}, `${plural(ids.length - alone[0] - alone[1], "entry", "entries")} in both, ${number(alone[0])} only in the kept pack, ${number(alone[1])} only in this one.`),
    make("div", { class: "two", role: "group", "aria-label": "Two packs" },
      ...[before, now].map(({ pack, asked }, n) => make("div", {}, make("b", {}, n ? "This pack: " : "Kept: "), name(pack, asked),
        soft(`${number(pack.token_budget.used)} tokens used, ${plural(pack.entries.length, "entry", "entries")}`))),
      ...ids.flatMap(id => entries.map((map, n) => side(map.get(id), entries[1 - n].get(id))))));
}

function side(one, other) {
  if (!one) return make("div", { class: "none" }, "–");
  const moved = other && other.rank !== one.rank ? ` (there ${other.rank})` : "";
  const said = one.content.replace(/^\[hmx\]\s*/, "");
  return make("div", { class: other ? "" : "only" }, make("span", { class: "soft" }, `${one.rank}${moved} · ${words(one.section)} · ${plural(one.token_estimate, "token")} `),
    said.length > 160 ? `${said.slice(0, 159)}…` : said);
}
