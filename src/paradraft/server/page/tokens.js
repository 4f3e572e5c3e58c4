// A text whose tokens show where they come from.

import { make } from "./elements.js";

const ORIGINS = ["drafted", "recovered", "bonus", "plain"];

export class TokenText {
  constructor(className = "text") {
    this.element = make("div", className);
    this.pieces = [];
    this.origins = [];
  }

  get text() {
    return this.pieces.join("");
  }

  get numTokens() {
    return this.origins.length;
  }

  /** Take pieces and the origin of each; a last piece without one is text that was held back until the end. */
  add(pieces, origins) {
    const spans = pieces.map((piece, at) => {
      const origin = origins[at];
      return origin ? make("span", `token ${origin}`, { title: origin }, piece) : make("span", "", {}, piece);
    });
    this.element.append(...spans);
    this.pieces.push(...pieces);
    this.origins.push(...origins);
  }

  addAll(other) {
    this.add(other.pieces, other.origins);
  }

  mark(at) {
    this.element.children[at]?.classList.add("first-difference");
  }

  /** Return `37 drafted, 10 recovered`. */
  summary() {
    const counts = ORIGINS.map((origin) => [this.origins.filter((each) => each === origin).length, origin]);
    return counts.filter(([times]) => times).map(([times, origin]) => `${times} ${origin}`).join(", ");
  }
}

/** Return the place of the first piece in which two texts differ, -1 if they are the same. */
export function firstDifference(one, other) {
  const most = Math.max(one.pieces.length, other.pieces.length);
  for (let at = 0; at < most; at += 1) {
    if (one.pieces[at] !== other.pieces[at]) return at;
  }
  return -1;
}
