// A drawing of where a record comes from: the sessions whose segments it rests on, and the versions around it.

import { drawn } from "./chart.js";
import { number } from "./dom.js";

const ROWS = 12, ROW = 24, FROM = 210, TO = 330, WIDTH = 620;

function label(x, y, text, hash, most = 26) {
  const made = drawn("text", { x, y, class: hash ? "to" : "" });
  made.textContent = text.length > most ? `${text.slice(0, most - 1)}…` : text;
  if (hash) {
    const title = drawn("title", {});
    title.textContent = text;
    made.append(title);
    made.addEventListener("click", () => { location.hash = hash; });
  }
  return made;
}

// `segments`: its contributions, the newest first. The tree below has the same links for the keyboard.
export function lineage(it, kind, segments) {
  const shown = segments.slice(0, ROWS), more = it.source_memory_ids.length - shown.length;
  const height = Math.max(3, shown.length + (more > 0 ? 1 : 0)) * ROW + 8, middle = height / 2;
  const part = encodeURIComponent, to = id => `#${kind}/${part(id)}`;
  const picture = drawn("svg", { viewBox: `0 0 ${WIDTH} ${height}`, width: WIDTH, height, class: "lineage", role: "img",
    "aria-label": `Drawing: ${number(it.source_memory_ids.length)} segments lead to this` });
  shown.forEach((each, n) => {
    const y = n * ROW + 16;
    picture.append(drawn("path", { d: `M${FROM} ${y} C${FROM + 60} ${y} ${TO - 60} ${middle} ${TO} ${middle}` }),
      drawn("circle", { cx: FROM, cy: y, r: 5, class: each.outcome ?? "unknown" }),
      label(0, y + 4, each.session_id, `#sessions/${part(each.session_id)}/${part(each.source_events[0] ?? "")}`));
  });
  if (more > 0) picture.append(label(0, shown.length * ROW + 20, `and ${number(more)} more`));
  picture.append(drawn("rect", { x: TO, y: middle - 14, width: WIDTH - TO - 1, height: 28, rx: 6 }), label(TO + 10, middle + 4, it.title ?? it.text, "", 38));
  for (const [id, said, y] of [[it.supersedes, "↑ the version before", middle - 24], [it.superseded_by, "↓ what holds instead", middle + 32]]) {
    if (id) picture.append(label(TO + 10, y, said, to(id)));
  }
  return picture;
}
