// Charts drawn by hand: lines in SVG, bars and shares as lists, so that they can be read without seeing them.

import { make, percent } from "./elements.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [120, 40];
const GAP = 5; // seconds without a sample

/**
 * Draw lines of values at the same times (seconds), the last at the right edge of a width of `span` seconds. They break
 * where nobody looked.
 */
export function drawLines(svg, lines, { times, span, most }) {
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  const places = times.map((at) => (WIDTH * (1 - (times.at(-1) - at) / span)).toFixed(2));
  const shapes = lines.flatMap(({ values, className, isFilled }) => stretches(times).flatMap(([begin, end]) => {
    const heights = values.map((value) => (HEIGHT - 1 - (value / (most || 1)) * (HEIGHT - 2)).toFixed(2));
    const points = places.map((x, at) => `${x},${heights[at]}`).slice(begin, end).join(" ");
    const line = shape("polyline", { points, class: className });
    if (!isFilled) return [line];
    return [shape("polygon", { points: `${places[begin]},${HEIGHT} ${points} ${places[end - 1]},${HEIGHT}` }), line];
  }));
  svg.replaceChildren(...shapes);
}

/** Return the [begin, end) of what was seen without a gap. */
function stretches(times) {
  const begins = times.map((_, at) => at).filter((at) => at === 0 || times[at] - times[at - 1] > GAP);
  return begins.map((begin, which) => [begin, begins[which + 1] ?? times.length]);
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
