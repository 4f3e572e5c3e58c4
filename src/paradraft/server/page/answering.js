// Streams one answer into a text and returns how it went.

import { stream } from "./api.js";
import { counted } from "./elements.js";

/** Stream a request's answer into `text`; return its ending, also of one that was stopped. */
export async function answerInto(text, { path, body }, { signal, onToken = () => {} }) {
  const began = performance.now();
  const ending = { reason: null, passes: null, seconds: 0, seed: body.seed };
  try {
    for await (const chunk of stream(path, body, signal)) {
      for (const choice of chunk.choices) {
        text.add(choice.pieces ?? [], choice.origins ?? []);
        ending.reason = choice.finish_reason ?? ending.reason;
      }
      ending.passes = chunk.metrics?.speculative_decoding.num_passes ?? ending.passes;
      onToken();
    }
  } catch (error) {
    if (error.name !== "AbortError") throw error;
    ending.reason = "stopped";
  }
  ending.seconds = (performance.now() - began) / 1000;
  return ending;
}

/** Return `58 tokens in 21 passes` with what else is known. */
export function factsOf(text, ending) {
  const parts = [tokensInPasses(text, ending)];
  if (ending.passes) parts.push(`${(text.numTokens / ending.passes).toFixed(2)} per pass`);
  parts.push(text.summary(), `${ending.seconds.toFixed(2)} s`, `seed ${ending.seed}`);
  parts.push(ending.reason === "stopped" ? "stopped" : `ended by ${ending.reason}`);
  return parts.filter(Boolean).join(" \u00b7 ");
}

export function tokensInPasses(text, { passes }) {
  const tokens = counted(text.numTokens, "token");
  return passes ? `${tokens} in ${counted(passes, "pass")}` : tokens;
}
