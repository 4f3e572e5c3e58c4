// Asks for the samples of the engine once a second while the page is seen, and draws them.

import { getJson } from "./api.js";
import { drawBars, drawLines, drawShares } from "./charts.js";
import { byId, percent } from "./elements.js";

const PERIOD = 1000; // milliseconds
const KEPT = 120; // seconds, the width of the charts
const RECENT = 60; // seconds that shares are taken over
const VERBS = { propose: "draft", score: "model", accept: "accept", observe: "learn", other: "other" };

let samples = [];

export function showLive() {
  draw();
  poll();
}

async function poll() {
  if (document.hidden) {
    document.addEventListener("visibilitychange", poll, { once: true });
    return;
  }
  try {
    const { not_ready: reason, samples: news } = await getJson(`page/live?after=${samples.at(-1)?.number ?? 0}`);
    take(news);
    tell(reason ? `Not ready: ${reason}.` : "");
  } catch (error) {
    tell(`No figures: ${error}`);
  }
  setTimeout(poll, PERIOD);
}

function take(news) {
  if (!news.length) return;
  const begunAnew = samples.length && news[0].number <= samples.at(-1).number; // the server was started again
  samples = ofLast(KEPT, [...(begunAnew ? [] : samples), ...news]);
  draw();
}

/** Say what is wrong, once for as long as it stays the same. */
function tell(text) {
  if (byId("live-state").textContent !== text) byId("live-state").textContent = text;
}

function draw() {
  const recent = ofLast(RECENT, samples);
  drawNow(recent);
  drawRates();
  drawQueue();
  drawBars(byId("acceptance"), byPosition(recent));
  drawBars(byId("gammas"), byGamma(recent));
  drawShares(byId("verbs-bar"), byId("verbs"), Object.entries(VERBS).map(([verb, name]) => (
    { className: `verb-${verb}`, name, value: sum(recent, (sample) => sample.verbs[verb]) }
  )));
}

function drawNow(recent) {
  const last = samples.at(-1);
  if (!last) return;
  const accepted = percent(sum(recent, ({ accepted: at }) => total(at)), sum(recent, ({ drafted: at }) => total(at)));
  const rate = Math.round(last.tokens / last.seconds);
  byId("rate").textContent = rate;
  byId("accepted").textContent = accepted;
  byId("running").textContent = last.running;
  byId("waiting").textContent = last.waiting;
  const queue = last.waiting ? `, ${last.waiting} waiting` : "";
  byId("strip").textContent = `${rate} tokens/s, ${accepted} accepted, ${last.running} running${queue}`;
}

function drawRates() {
  const values = samples.map(({ tokens, seconds }) => tokens / seconds);
  const most = Math.max(0, ...values);
  drawLines(byId("rate-chart"), [{ values, isFilled: true }], { times: times(), span: KEPT, most });
  const now = Math.round(values.at(-1) ?? 0);
  byId("rate-note").textContent = `now ${now}, highest ${Math.round(most)}`;
}

function drawQueue() {
  const [running, waiting] = [samples.map((each) => each.running), samples.map((each) => each.waiting)];
  const most = Math.max(1, ...running, ...waiting);
  const lines = [{ values: running }, { values: waiting, className: "second" }];
  drawLines(byId("queue-chart"), lines, { times: times(), span: KEPT, most });
  const highest = [running, waiting].map((each) => Math.max(0, ...each));
  byId("queue-note").textContent = `running ${highest[0]}, waiting ${highest[1]} (dashed)`;
}

function byPosition(recent) {
  const depth = Math.max(0, ...recent.map(({ drafted }) => drafted.length));
  return Array.from({ length: depth }, (_, at) => ({
    place: at + 1,
    name: `position ${at + 1}`,
    part: sum(recent, ({ accepted }) => accepted[at] ?? 0),
    whole: sum(recent, ({ drafted }) => drafted[at] ?? 0),
  })).filter(({ whole }) => whole);
}

function byGamma(recent) {
  const longest = Math.max(-1, ...recent.flatMap(({ gammas }) => Object.keys(gammas).map(Number)));
  const counts = Array.from({ length: longest + 1 }, (_, gamma) => sum(recent, ({ gammas }) => gammas[gamma] ?? 0));
  const whole = total(counts);
  return counts.map((part, gamma) => ({ place: gamma, name: `gamma ${gamma}`, part, whole }));
}

function ofLast(seconds, all) {
  const end = all.at(-1)?.at;
  return all.filter(({ at }) => end - at < seconds);
}

function times() {
  return samples.map(({ at }) => at);
}

function sum(items, valueOf) {
  return total(items.map(valueOf));
}

function total(values) {
  return values.reduce((before, value) => before + value, 0);
}
