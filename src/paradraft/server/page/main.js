// Puts the page together: the conversation, its keys and buttons, and the live figures.

import { getJson } from "./api.js";
import { byId, make } from "./elements.js";
import { showLive } from "./live.js";
import { requestFor } from "./settings.js";
import { Answer, questionOf } from "./turns.js";

const NEAR_END = 120; // pixels

const conversation = byId("conversation");
const message = byId("message");
const send = byId("send");
let model = {};
let earlier = []; // {role, content} of what was said and answered
let running = null; // AbortController of the answer that streams

async function describe() {
  try {
    const { data } = await getJson("v1/models");
    model = data[0].paradraft;
    const exact = model.is_exact ? "exact" : "not exact";
    byId("model").textContent = `${data[0].id} in ${model.dtype} on ${model.runner}. `
      + `Drafts: ${model.drafter}, at most ${model.gamma}. Rule: ${model.rule}, ${exact}.`;
    byId("gamma").placeholder = `up to ${model.gamma}`;
  } catch (error) {
    byId("model").replaceChildren(make("span", "error", {}, String(error)));
  }
}

/** Run what streams, one at a time; the send button stops it. */
async function run(work) {
  if (running) return;
  running = new AbortController();
  send.textContent = "Stop";
  try {
    await work({ signal: running.signal, onToken: followEnd });
  } finally {
    running = null;
    send.textContent = "Send";
    followEnd();
  }
}

async function ask(text) {
  const request = requestFor(text, earlier);
  const answer = new Answer(request, { model: () => model, run, say });
  byId("welcome").hidden = true;
  conversation.append(questionOf(text), answer.element);
  scrollToEnd();
  message.value = "";
  say("Answering.");
  await run(async (options) => {
    const { signal } = options;
    const canGoOn = await answer.stream(options);
    const isGone = signal.reason?.message === "cleared";
    if (canGoOn && !isGone) {
      earlier.push({ role: "user", content: text }, { role: "assistant", content: answer.text.text });
    } else if (!isGone && message.value === "") {
      message.value = text; // to be mended and sent again
    }
  });
}

function stop(reason) {
  running?.abort(reason && new DOMException(reason, "AbortError"));
}

function clear() {
  stop("cleared");
  earlier = [];
  conversation.replaceChildren(byId("welcome"));
  byId("welcome").hidden = false;
  say("Cleared.");
  message.focus();
}

function say(text) {
  byId("status").textContent = text;
}

function scrollToEnd() {
  conversation.lastElementChild?.scrollIntoView({ block: "end" });
}

/** Keep the end of the answer above the composer, unless it is far below: then somebody reads further up. */
function followEnd() {
  const end = conversation.lastElementChild.getBoundingClientRect().bottom;
  const hidden = end - byId("composer").getBoundingClientRect().top;
  if (hidden > 0 && hidden < NEAR_END) scrollToEnd();
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  if (running) stop();
  else if (message.value.trim()) ask(message.value);
});
message.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!running && message.value.trim()) ask(message.value);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
});
byId("clear").addEventListener("click", clear);
byId("settings-form").addEventListener("submit", (event) => event.preventDefault());
byId("shows-origins").addEventListener("change", (event) => {
  document.body.classList.toggle("hides-origins", !event.target.checked);
});

byId("settings").open = matchMedia("(min-width: 48rem)").matches;
describe();
showLive();
message.focus({ preventScroll: true });
