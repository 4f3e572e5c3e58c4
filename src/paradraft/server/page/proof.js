// The same request with the same seed, without drafts (or with them): both answers side by side.

import { answerInto, tokensInPasses } from "./answering.js";
import { counted, make } from "./elements.js";
import { firstDifference, TokenText } from "./tokens.js";
import { twinOf } from "./settings.js";

/** Show in `place` whether a finished answer is the same without drafts; throw what the request throws. */
export async function prove(place, first, { signal, onToken, isExact }) {
  const request = twinOf(first.request);
  const copy = new TokenText();
  copy.addAll(first.text);
  const again = new TokenText();
  const [left, right] = [twin(first.request, copy), twin(request, again)];
  const verdict = make("p", "verdict", { role: "status" }, "Answering once more with the same seed ...");
  place.replaceChildren(verdict, make("div", "twins", {}, left.element, right.element));
  place.scrollIntoView({ block: "nearest" });
  right.element.setAttribute("aria-busy", "true");
  let ending;
  try {
    ending = await answerInto(again, request, { signal, onToken });
  } finally {
    right.element.setAttribute("aria-busy", "false");
  }
  const most = Math.max(first.ending.passes, ending.passes ?? 0);
  left.show(first.ending, most);
  right.show(ending, most);
  if (ending.reason === "stopped") verdict.textContent = "Stopped before it could be compared.";
  else judge(verdict, { copy, again, passes: passesByDrafting(first, ending), isExact });
}

function judge(verdict, { copy, again, passes, isExact }) {
  const at = firstDifference(copy, again);
  verdict.classList.add(at < 0 ? "same" : "differs");
  if (at < 0) {
    const tokens = counted(copy.numTokens, "token");
    const drafted = counted(passes.drafted, "pass");
    verdict.textContent = `Identical: ${tokens}, in ${drafted} with drafts, ${passes.plain} without.`;
    return;
  }
  copy.mark(at);
  again.mark(at);
  const why = isExact ? "" : " This server's rule does not promise equal answers.";
  verdict.textContent = `Different from token ${at + 1} on.${why}`;
}

function passesByDrafting(first, ending) {
  const [one, other] = [first.ending.passes, ending.passes];
  return first.request.body.speculative.enabled ? { drafted: one, plain: other } : { drafted: other, plain: one };
}

function twin({ body }, text) {
  const bar = make("b");
  const passes = make("p", "passes", {}, make("span", "", {}, "..."), make("i", "", { "aria-hidden": "true" }, bar));
  const element = make("section", "twin", {}, make("h3", "", {}, heading(body)), passes, text.element);
  return {
    element,
    show(ending, most) {
      passes.firstChild.textContent = tokensInPasses(text, ending);
      bar.style.width = `${(100 * (ending.passes ?? 0)) / most}%`;
    },
  };
}

function heading(body) {
  return `${body.speculative.enabled ? "With" : "Without"} drafts, seed ${body.seed}`;
}
