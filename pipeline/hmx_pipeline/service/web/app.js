// Routing by the fragment (#view/argument), and the choice of tenant or API key.

import { tenants, who } from "./api.js";
import { ask } from "./ask.js";
import { artifact, artifacts } from "./artifacts.js";
import { make } from "./dom.js";
import { knowledge } from "./knowledge.js";
import { letters } from "./letters.js";
import { live } from "./live.js";
import { overview } from "./overview.js";
import { patterns, people, sessions } from "./tables.js";

const VIEWS = { overview, live, ask, artifacts, artifact, knowledge, patterns, sessions, people, letters };
const at = id => document.getElementById(id);
const main = at("main"), tenant = at("tenant"), key = at("key");
let leave = () => {};

function show() {
  const [name, ...about] = location.hash.slice(1).split("/").map(decodeURIComponent);
  if (name === "main") return main.focus();
  const view = VIEWS[name] ?? overview;
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.hash === `#${VIEWS[name] ? name : "overview"}` || (name === "artifact" && link.hash === "#artifacts");
    here ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  leave();
  const place = make("div", { class: "view" });
  main.replaceChildren(place);
  leave = view(place, ...about) ?? (() => {});
  scrollTo(0, 0);
}

// An API key selects its own tenant; without keys every tenant can be chosen.
async function look() {
  let known = [];
  try {
    known = await tenants();
    at("keys").hidden = !who.key;
  } catch (error) {
    at("keys").hidden = !(who.key || error.status === 401 || error.status === 403);
  }
  at("tenants").hidden = Boolean(who.key) || !known.length;
  tenant.replaceChildren(...known.map(name => new Option(name, name)));
  const last = new URLSearchParams(location.search).get("tenant") ?? localStorage.getItem("tenant");
  if (known.includes(last)) tenant.value = last;
  choose();
}

// The tenant stands in the address, so that a link shows the same to whoever opens it.
function choose() {
  who.tenant = tenant.value;
  if (!who.key && who.tenant) history.replaceState(null, "", `?${new URLSearchParams({ tenant: who.tenant })}${location.hash}`);
}

tenant.addEventListener("change", () => {
  localStorage.setItem("tenant", tenant.value);
  choose();
  show();
});
key.value = who.key;
key.addEventListener("change", async () => {
  who.key = key.value.trim();
  sessionStorage.setItem("key", who.key);
  await look();
  show();
});
at("who").addEventListener("submit", event => event.preventDefault());
addEventListener("hashchange", show);
await look();
show();
