// The settings form as the fields of a request.

import { byId } from "./elements.js";

const MOST_SEED = 2 ** 31;

/** Return path and body of the request for a message behind earlier ones ({role, content}). */
export function requestFor(message, earlier) {
  const body = { stream: true, ...sampling(), speculative: speculation() };
  if (byId("mode").value === "text") return { path: "v1/completions", body: { prompt: message, ...body } };
  const system = byId("system").value.trim();
  const messages = [...(system ? [{ role: "system", content: system }] : []), ...earlier];
  messages.push({ role: "user", content: message });
  return { path: "v1/chat/completions", body: { messages, ...body } };
}

/** Return the same request with speculation the other way round. */
export function twinOf({ path, body }) {
  const { gamma, ...rest } = body.speculative;
  return { path, body: { ...body, speculative: { ...rest, enabled: !rest.enabled } } };
}

function sampling() {
  const given = {
    temperature: numberIn("temperature"),
    top_p: numberIn("top-p"),
    max_tokens: numberIn("max-tokens"),
    seed: numberIn("seed") ?? Math.floor(Math.random() * MOST_SEED),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
}

function speculation() {
  const gamma = numberIn("gamma");
  const chosen = { enabled: byId("speculates").checked, stats: true, origins: true };
  return gamma === null ? chosen : { ...chosen, gamma };
}

/** Return what stands in a field, null if it is empty. The server checks it and says what is wrong with it. */
function numberIn(id) {
  const { value } = byId(id);
  return value === "" ? null : Number(value);
}
