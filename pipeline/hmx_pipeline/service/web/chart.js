// Area chart as wide as its container; the newest value is on the right.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 120, HEIGHT = 32;

export function area(values) {
  const most = Math.max(...values, 1e-9);
  const left = WIDTH - Math.max(1, values.length - 1) * WIDTH / Math.max(12, values.length - 1);
  const step = (WIDTH - left) / Math.max(1, values.length - 1);
  const points = values.map((value, n) => `${(left + n * step).toFixed(1)},${(HEIGHT - 2 - value / most * (HEIGHT - 4)).toFixed(1)}`);
  const chart = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "area", "aria-hidden": "true" });
  if (values.length > 1) {
    chart.append(drawn("polygon", { points: `${left.toFixed(1)},${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}` }),
      drawn("polyline", { points: points.join(" ") }));
  }
  return chart;
}

export function drawn(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
