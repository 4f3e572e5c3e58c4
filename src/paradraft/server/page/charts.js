// Charts drawn by hand: lines in SVG, bars and shares as lists, so that they can be read without seeing them.

import { make, percent } from "./elements.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [120, 40];

/** Draw lines over time, the last value at the right edge; `room` is how many values the width holds. */
export function drawLines(svg, lines, { room, most }) {
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  const shapes = lines.flatMap(({ values, className, isFilled }) => {
    const points = values.map((value, at) => {
      const x = WIDTH - ((values.length - 1 - at) * WIDTH) / (room - 1);
      const y = HEIGHT - 1 - (value / (most || 1)) * (HEIGHT - 2);
      return `${x.toFixed(2)},${y.toFixed(2)}`;
    });
    const line = shape("polyline", { points: points.join(" "), class: className });
    if (!isFilled || !points.length) return [line];
    const left = points[0].split(",")[0];
    return [shape("polygon", { points: `${left},${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}` }), line];
  });
  svg.replaceChildren(...shapes);
}

/** Draw one bar for each {place, name, part, whole}; its height is the share. */
export function drawBars(list, bars) {
  const items = bars.map(({ place, name, part, whole }) => {
    const bar = make("span", "bar", { "aria-hidden": "true" });
    bar.style.height = `${whole ? (3.2 * part) / whole : 0}rem`;
    const share = make("span", "share", {}, percent(part, whole));
    return make("li", "", { title: `${name}: ${part} of ${whole}` },
      make("span", "unseen", {}, `${name}: `), share, bar, make("span", "place", { "aria-hidden": "true" }, place));
  });
  list.replaceChildren(...(items.length ? items : [make("li", "nothing", {}, "nothing drafted")]));
}

/** Draw shares of a whole: a bar of parts, and a list that says how much each is. */
export function drawShares(bar, list, parts) {
  const whole = parts.reduce((sum, { value }) => sum + value, 0);
  bar.replaceChildren(...parts.map(({ className, value }) => {
    const part = make("span", className);
    part.style.width = `${whole ? (100 * value) / whole : 0}%`;
    return part;
  }));
  list.replaceChildren(...parts.map(({ className, name, value }) =>
    make("li", "", {}, make("i", className, { "aria-hidden": "true" }), `${name} ${percent(value, whole)}`)));
}

function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value ?? "");
  return element;
}
