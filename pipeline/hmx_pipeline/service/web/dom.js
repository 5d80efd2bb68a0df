// Building of elements. Text is never parsed as markup, because agents wrote it.

export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter(child => child !== null && child !== undefined && child !== false));
  return made;
}

export const soft = (...children) => make("p", { class: "soft" }, ...children);
export const code = text => make("code", {}, text);
// Numbers above 2^53 lost their last digits when they were parsed.
export const number = value => (Math.abs(value) > Number.MAX_SAFE_INTEGER ? "≈ " : "") + (value ?? 0).toLocaleString("en");
export const fixed = (value, digits = 2) => value.toFixed(digits);
export const plural = (count, word, more = `${word}s`) => `${number(count)} ${count === 1 ? word : more}`;
export const share = (part, whole) => whole ? `${(100 * part / whole).toFixed(part && part < whole ? 1 : 0)} %` : "–";
// Renders `command` in titles as code.
export const marked = text => text.split("`").map((part, n) => n % 2 ? code(part) : part);
export const words = name => name.replaceAll("_", " ");
export const link = (text, ...parts) => make("a", { href: `#${parts.map(encodeURIComponent).join("/")}` }, marked(text));

export function seconds(value) {
  if (value === Infinity) return "over an hour";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 120) return `${value < 10 ? fixed(value, 1).replace(".0", "") : Math.round(value)} s`;
  return value < 7200 ? `${Math.round(value / 60)} min` : `${Math.round(value / 3600)} h`;
}

export function when(text) {
  const at = new Date(text);
  const shown = at.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
  return make("time", { datetime: text, title: text }, shown);
}

export function ago(text) {
  const passed = Math.max(0, (Date.now() - new Date(text)) / 1000);
  const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([size]) => passed >= size) ?? [1, "s"];
  return make("time", { datetime: text, title: text }, `${Math.floor(passed / size)} ${unit} ago`);
}

export function bar(part, whole, said) {
  const filled = make("i");
  filled.style.width = `${whole ? Math.min(100, 100 * part / whole) : 0}%`;
  return make("span", { class: "bar", role: "img", "aria-label": said ?? share(part, whole) }, filled);
}

// Stacked bar of [name, count] parts; the style sheet defines their colours by name.
export function stacked(parts, whole, said) {
  const shown = parts.filter(([, count]) => count > 0).map(([name, count]) => {
    const part = make("i", { class: `fill ${name}`, title: `${words(name)}: ${number(count)}` });
    part.style.width = `${100 * count / whole}%`;
    return part;
  });
  return make("div", { class: "stacked", role: "img", "aria-label": said }, ...shown);
}

export const field = (name, title, attributes) => make("label", {}, `${title} `, make("input", { name, ...attributes }));
export const badge = status => make("span", { class: `badge ${status.replaceAll(" ", "-")}` }, words(status));
export const confidence = value => make("span", { class: "confidence" }, bar(value, 1, "confidence"), fixed(value));

// Columns: { title, cell, number, keep: no wrapping, sort }. `sorted` names the sort column, `by` is called to change it.
export function table(caption, columns, rows, { sorted, by } = {}) {
  const head = columns.map(column => {
    const here = column.sort && column.sort === sorted;
    const title = column.sort && by
      ? make("button", { type: "button", onclick: () => by(column.sort), title: `sort by ${column.title}` }, column.title)
      : column.title;
    return make("th", { scope: "col", class: column.number ? "number" : column.keep && "keep", "aria-sort": here && "descending" }, title);
  });
  const body = rows.map(row => make("tr", {}, columns.map((column, n) =>
    make(n ? "td" : "th", { class: column.number ? "number" : column.keep && "keep", scope: n ? null : "row" }, cell(column.cell(row))))));
  const made = make("table", {}, make("caption", { class: "hidden" }, caption),
    make("thead", {}, make("tr", {}, head)), make("tbody", {}, body));
  return make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, made);
}
const cell = value => typeof value === "number" ? number(value) : value ?? "";

export function card(title, ...children) {
  return make("section", { class: "card", "aria-label": title }, make("h2", {}, marked(title)), ...children);
}

export function folded(title, load, open = false) {
  const place = make("div", { class: "folded" });
  const made = make("details", { ontoggle: () => made.open && !place.childNodes.length && into(place, load) },
    make("summary", {}, title), place);
  if (open) made.open = true;
  return made;
}

// A text with a copy button.
export function copied(text) {
  const done = make("span", { class: "soft", role: "status" });
  const block = make("pre", { class: "pasted", tabindex: "0" }, text);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      done.textContent = " copied";
    } catch {
      // Browsers allow clipboard writes only on localhost or over TLS.
      getSelection().selectAllChildren(block);
      done.textContent = " selected: copy it with Ctrl+C";
    }
  };
  return make("div", {}, make("p", {}, make("button", { type: "button", class: "copy", onclick: copy }, "Copy"), done), block);
}

// Shows the result of `work`, or its error with advice and a retry button.
export async function into(place, work) {
  place.setAttribute("aria-busy", "true");
  if (!place.childNodes.length) place.append(soft("reading …"));
  try {
    place.replaceChildren(...[await work()].flat());
  } catch (error) {
    const again = make("button", { type: "button", onclick: () => into(place, work) }, "Try again");
    place.replaceChildren(problem(error, again));
  }
  place.removeAttribute("aria-busy");
}

export function problem(error, again) {
  return make("div", { class: "problem", role: "alert" }, make("strong", {}, error.title ?? "This page has a defect"),
    make("p", {}, error.title ? error.message : `${error.message} (please report it)`),
    error.advice && make("p", {}, error.advice), again);
}

const SHORT = 60;

// Renders JSON for reading: fields as a list, arrays in order.
export function readable(value, depth = 0) {
  if (Array.isArray(value)) {
    if (!value.length) return make("span", { class: "soft" }, "none");
    const short = value.every(one => typeof one !== "object") && value.join(", ");
    if (short && short.length <= SHORT) return make("span", {}, marked(short));
    return make("ol", {}, value.map(one => make("li", {}, readable(one, depth + 1))));
  }
  if (value !== null && typeof value === "object") {
    const fields = Object.entries(value).filter(([, one]) => one !== null && one !== "");
    return make("dl", { class: depth ? "inner" : "" }, fields.flatMap(([name, one]) =>
      [make("dt", {}, words(name)), make("dd", {}, readable(one, depth + 1))]));
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  return make("span", { class: "text" }, typeof value === "number" ? number(value) : marked(String(value)));
}
