/* The sinks' cards. */
import { pauseSink, resumeSink } from "./actions.mjs";
import { isLive } from "./age.mjs";
import { drawChart, makeChart } from "./chart.mjs";
import { $, goTo, icon, list, make, setAttribute, setHidden, setIcon, setText } from "./dom.mjs";
import { ago, axis, brief, bytes, clock, count, duration, rate, secondsBetween, unknown } from "./format.mjs";
import { sinkLook } from "./looks.mjs";
import { chooseReceivers, hasReceivers, receiversWords } from "./receivers.mjs";

/* What is in trouble comes first: by its state, then by what needs a look; then by name. */
export function inOrderOfTrouble(sinks, attention = []) {
  const tones = ["bad", "warn", "idle", "ok"];
  const levels = { error: 0, warning: 1 };
  const worst = (sink) => Math.min(2, ...attention.filter((finding) => finding.sink === sink.name).map(({ level }) => levels[level] ?? 2));
  return sinks.map((sink) => [tones.indexOf(sinkLook(sink.state).tone), worst(sink), sink])
    .sort(([a, i, one], [b, j, other]) => a - b || i - j || (one.name < other.name ? -1 : 1))
    .map(([, , sink]) => sink);
}

const isPaused = (sink) => sink.state === "paused" || sink.state === "refused";

/* A figure with its course over the last minutes. words(index) is what it was at one point of it. */
function makeTrend(label, nLines, words) {
  const value = make("strong");
  const note = make("span", { class: "muted" });
  const foot = make("span");
  const top = make("span", { class: "axis-top" });
  const trend = { value, note, top, foot, pointed: null, sink: null };
  trend.chart = makeChart(nLines, (index) => {
    trend.pointed = index;
    setFoot(trend, words);
  });
  trend.node = make("figure", { class: `trend trend-${nLines}` }, make("figcaption", {}, label), value, note,
    trend.chart.svg, make("div", { class: "axis" }, foot, top));
  return trend;
}

function setFoot(trend, words) {
  const { step, rate: points } = trend.sink.series;
  const span = `\u2212${duration(step * points.length)}`; /* what the left edge is */
  const i = trend.pointed;
  setHidden(trend.top, i !== null);
  setText(trend.foot, i === null ? span : `${ago((points.length - 1 - i) * step)}: ${words(trend.sink.series, i)}`);
}

const emptySeries = { step: 5, rate: [null], p50: [null], p99: [null], backlog: [null] };

/* Before its start the relay delivered nothing that it knows of: that is a gap, not a zero. */
export function sinceStart(series, status) {
  const seconds = secondsBetween(status.started_at, status.now);
  const n = seconds === null ? series.rate.length : Math.ceil(seconds / series.step);
  return { ...series, rate: series.rate.map((value, i) => (i < series.rate.length - n ? null : value)) };
}

const trendWords = {
  backlog: (series, i) => count(series.backlog[i]),
  rate: (series, i) => rate(series.rate[i]),
  latency: (series, i) => `${duration(series.p50[i])}, ${duration(series.p99[i])}`,
};

/* A module may be anything, and has the one for what has no icon of its own. */
const kindIcon = (kind) => ($(`i-kind-${kind}`) ? `kind-${kind}` : "kind-other");

function makeCard(sink) {
  const parts = {
    name: make("h3"),
    kindIcon: icon("kind-other"),
    kind: make("span"),
    target: make("p", { class: "target" }),
    stateIcon: icon("play"),
    state: make("b"),
    since: make("span", { class: "muted" }),
    reason: make("p", { class: "reason" }),
    backlog: makeTrend("Waiting", 1, trendWords.backlog),
    rate: makeTrend("Delivered", 1, trendWords.rate),
    latency: makeTrend("Latency", 2, trendWords.latency),
    counts: make("dl", { class: "counts" }),
    error: make("p", { class: "last-error" }),
    receivers: make("a", { class: "fan" }),
    shards: make("p", { class: "shards" }),
    last: make("span", { class: "muted" }),
    button: make("button", { type: "button" }, icon("pause"), make("span")),
  };
  parts.badge = make("span", { class: "badge" }, parts.stateIcon, parts.state);
  parts.button.addEventListener("click", () => {
    const name = sink.name;
    if (parts.button.dataset.verb === "resume") resumeSink(name);
    else pauseSink(name);
  });
  parts.receivers.addEventListener("click", (event) => {
    event.preventDefault();
    if (!hasReceivers()) return;
    chooseReceivers(sink.name);
    goTo("receivers");
  });
  const card = make("article", { class: "card", "aria-label": `Sink ${sink.name}` },
    make("header", {}, parts.name, make("span", { class: "kind" }, parts.kindIcon, parts.kind), parts.badge),
    parts.target,
    parts.reason,
    make("div", { class: "trends" }, parts.backlog.node, parts.rate.node, parts.latency.node),
    parts.counts,
    parts.receivers,
    parts.shards,
    parts.error,
    make("footer", {}, parts.last, parts.button));
  card.parts = parts;
  return card;
}

/* "0, 2 to 5" */
function numbersWords(numbers) {
  const runs = [];
  for (const n of numbers) {
    const run = runs.at(-1);
    if (run && run.last + 1 === n) run.last = n;
    else runs.push({ first: n, last: n });
  }
  return runs.map(({ first, last }) =>
    last === first ? `${first}` : `${first}${last - first > 1 ? " to " : ", "}${last}`).join(", ");
}

export function shardsWords(sink) {
  if (!(sink.shards?.total > 1)) return "";
  const { total, owners, unowned } = sink.shards;
  const whose = owners.map(({ relay, pid, shards }) => `${relay ?? `process ${pid}`}: ${numbersWords(shards)}`);
  if (unowned.length > 0) whose.push(`no relay: ${numbersWords(unowned)}`);
  return `${count(total)} shards; ${whose.join("; ")}`;
}

/* Counting stops where it would cost the database something. */
const upTo = (value, sink) => count(value) + (sink.counts_are_exact === false && value > 0 ? "+" : "");

const counters = [
  ["in flight", (sink) => (sink.window ? `${count(sink.in_flight)} of ${count(sink.window)}` : count(sink.in_flight)), () => ""],
  ["retrying", (sink) => upTo(sink.retrying, sink), (sink) => (sink.retrying > 0 ? "warn" : "")],
  ["blocked", (sink) => upTo(sink.blocked, sink), (sink) => (sink.blocked > 0 ? "warn" : "")],
  ["delayed", (sink) => upTo(sink.delayed, sink), () => ""],
  ["dead", (sink) => upTo(sink.dead, sink), (sink) => (sink.dead > 0 ? "bad" : "")],
];

function updateCard(card, sink, status) {
  const parts = card.parts;
  const look = sinkLook(sink.state);
  const series = sinceStart(sink.series ?? emptySeries, status);

  setAttribute(card, "data-tone", look.tone);
  setText(parts.name, sink.name);
  setIcon(parts.kindIcon, kindIcon(sink.kind));
  setText(parts.kind, sink.kind);
  setText(parts.target, sink.target ? `to ${sink.target}` : "");
  setAttribute(parts.target, "title", sink.target ?? null);
  setAttribute(parts.badge, "data-tone", look.tone);
  setIcon(parts.stateIcon, look.icon);
  setText(parts.state, sink.state);
  setText(parts.since, sink.state_since ? `since ${clock(sink.state_since, status.now)}` : "");
  setText(parts.reason, stateWords(sink, status));
  setAttribute(parts.reason, "title", parts.reason.textContent);

  for (const trend of [parts.backlog, parts.rate, parts.latency]) trend.sink = { ...sink, series };
  const backlog = sink.backlog ?? { events: null, oldest_age: null, is_exact: true };
  setText(parts.backlog.value, count(backlog.events, backlog.is_exact));
  setText(parts.backlog.note, backlog.events > 0 ? `oldest ${brief(backlog.oldest_age)}` : "nothing is late");
  setText(parts.rate.value, isLive(status) ? rate(sink.rate) : unknown);
  setText(parts.rate.note, sink.counters ? `${bytes(sink.counters.bytes)} so far` : "");
  const latency = isLive(status) ? sink.latency : null;
  setText(parts.latency.value, duration(latency?.p50 ?? null));
  setText(parts.latency.note, `p99 ${duration(latency?.p99 ?? null)}`);
  const tops = [
    count(drawChart(parts.backlog.chart, [series.backlog], 10, `waiting, ${parts.backlog.value.textContent} now`)),
    rate(drawChart(parts.rate.chart, [series.rate], 1, `delivered, ${parts.rate.value.textContent} now`)),
    axis(drawChart(parts.latency.chart, [series.p50, series.p99], 0, `latency, p50 ${parts.latency.value.textContent} and ${parts.latency.note.textContent} now`)),
  ];
  [parts.backlog, parts.rate, parts.latency].forEach((trend, i) => {
    setText(trend.top, `↑\u00a0${tops[i]}`);
    setFoot(trend, [trendWords.backlog, trendWords.rate, trendWords.latency][i]);
  });

  list(parts.counts, counters, (counter) => counter[0],
    (counter) => make("div", {}, make("dt", {}, counter[0]), make("dd")),
    (node, counter) => {
      setText(node.lastElementChild, counter[1](sink));
      setAttribute(node, "data-tone", counter[2](sink));
    });

  showError(parts.error, sink, status);
  setText(parts.receivers, receiversWords(sink));
  setHidden(parts.receivers, !sink.receivers);
  setAttribute(parts.receivers, "href", hasReceivers() ? "#receivers" : null);
  setText(parts.shards, shardsWords(sink));
  setHidden(parts.shards, !(sink.shards?.total > 1));

  setText(parts.last, lastWords(sink, status));
  setAttribute(parts.button, "data-verb", isPaused(sink) ? "resume" : "pause");
  setAttribute(parts.button, "class", isPaused(sink) ? "primary" : "");
  setAttribute(parts.button, "aria-label", `${isPaused(sink) ? "Resume" : "Pause"} ${sink.name}`);
  setText(parts.button.lastElementChild, isPaused(sink) ? "Resume" : "Pause");
  setIcon(parts.button.firstElementChild, isPaused(sink) ? "play" : "pause");
}

/* Not what the line under the name says already. */
function showError(node, sink, status) {
  const error = sink.last_error;
  const words = error && (error.words || error.outcome.replaceAll("_", " "));
  const isSaid = Boolean(error && sink.state_reason && (sink.state_reason.includes(words) || words.includes(sink.state_reason)));
  setHidden(node, isSaid);
  setText(node, error ? `${ago(secondsBetween(error.at, status.now))}: ${words}` : "No error since the start.");
  setAttribute(node, "data-has", error ? "yes" : "no");
  setAttribute(node, "title", error ? words : null);
}

/* One line under the name: why it is as it is, else what it carries. */
function stateWords(sink, status) {
  const since = secondsBetween(sink.state_since, status.now);
  const lasting = since === null ? "" : `for ${brief(since)}`;
  if (sink.state_reason) return `${lasting}${lasting ? ": " : ""}${sink.state_reason}`;
  if (sink.state === "standby" && sink.owner) return `${lasting}; process ${sink.owner.pid} of the database delivers`;
  return `${lasting}${lasting ? " · " : ""}${(sink.topics ?? []).join(", ")}`;
}

function lastWords(sink, status) {
  const last = secondsBetween(sink.last_delivery_at, status.now);
  if (last === null) return "nothing delivered yet";
  return `${count(sink.counters?.delivered)} delivered, last ${ago(last)}`;
}

export function showSinks(status) {
  const sinks = inOrderOfTrouble(status.sinks ?? [], status.attention ?? []);
  list($("sinks"), sinks, (sink) => sink.name, makeCard, (card, sink) => updateCard(card, sink, status));
  /* Four in rows of three would leave one alone. */
  setAttribute($("sinks"), "data-columns", sinks.length === 2 || sinks.length === 4 ? "2" : "3");
  setHidden($("no-sinks"), sinks.length > 0);
}
