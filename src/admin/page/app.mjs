/*
 * The page: one status document a second, shown by the modules beside this one.
 * Nothing here knows more than that document says.
 */
import { reloadConfig, resumeSink } from "./actions.mjs";
import { headline, whatNeedsAttention } from "./attention.mjs";
import { chooseDeadSink, prepareDead, showDead } from "./dead.mjs";
import { prepareDialog } from "./dialog.mjs";
import { $, icon, list, make, makeCommand, setAttribute, setHidden, setIcon, setText } from "./dom.mjs";
import { ago, count, counted, duration, rate, secondsBetween } from "./format.mjs";
import { prepareRecent, showBlockedKeys, showRecent, showSource } from "./lists.mjs";
import { showSinks, showStages } from "./sinks.mjs";
import { followStatus } from "./stream.mjs";
import { askForToken, forgetToken, hasToken } from "./token.mjs";

const STALE_MS = 4000;
let arrived = null; /* performance.now() of the last status */
let isLost = false;

const levelLooks = { bad: { icon: "cross", word: "Stuck" }, warn: { icon: "alert", word: "Check" }, note: { icon: "info", word: "Note" } };

const actions = {
  resume: { label: "Resume", run: (action) => resumeSink(action.sink) },
  reload: { label: "Reload", run: () => reloadConfig() },
  blocked: { label: "Show the keys", run: () => goTo("blocked") },
  dead: {
    label: "Show them",
    run: (action) => {
      chooseDeadSink(action.sink);
      goTo("dead");
    },
  },
};

function goTo(id) {
  $(id).scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  $(id).focus({ preventScroll: true });
}

function makeProblem(problem) {
  const command = makeCommand();
  const button = make("button", { type: "button", class: "primary" });
  const parts = { title: make("b"), lasts: make("span", { class: "muted" }), why: make("p"), remedy: make("p", { class: "remedy" }), command, button };
  const look = levelLooks[problem.level];
  button.addEventListener("click", () => actions[button.dataset.kind].run({ sink: button.dataset.sink }));
  const node = make("li", { "data-level": problem.level },
    make("span", { class: "level" }, icon(look.icon), look.word),
    make("div", {}, make("p", { class: "title" }, parts.title, parts.lasts), parts.why, parts.remedy),
    make("div", { class: "help" }, command.node, button));
  node.parts = parts;
  return node;
}

function updateProblem(node, problem) {
  const { title, lasts, why, remedy, command, button } = node.parts;
  setText(title, problem.title);
  setText(lasts, problem.lasts ? ` for ${duration(problem.lasts)}` : "");
  setText(why, problem.why);
  setText(remedy, problem.remedy);
  setHidden(command.node, !problem.command);
  setText(command.code, problem.command ?? "");
  setHidden(button, !problem.action);
  if (problem.action) {
    setText(button, actions[problem.action.kind].label);
    setAttribute(button, "data-kind", problem.action.kind);
    setAttribute(button, "data-sink", problem.action.sink ?? "");
  }
}

function showAttention(status) {
  const problems = whatNeedsAttention(status);
  const open = problems.filter((problem) => problem.level !== "note");
  const level = open[0]?.level ?? "ok";
  const words = headline(status, problems);
  setAttribute($("top"), "data-level", level);
  setIcon($("top-icon"), { ok: "check", warn: "alert", bad: "cross" }[level]);
  setText($("headline"), words);
  list($("problems"), problems, (problem) => `${problem.id}:${problem.level}`, makeProblem, updateProblem);
  setText(document.querySelector("title"), open.length > 0 ? `(${open.length}) pgcourier` : "pgcourier");
}

/* All sinks in five figures. */
function showSums(status) {
  const sinks = status.sinks ?? [];
  const sum = (of) => sinks.reduce((all, sink) => all + (of(sink) ?? 0), 0);
  const most = (of) => sinks.reduce((all, sink) => Math.max(all, of(sink) ?? 0), 0);
  const running = sinks.filter((sink) => sink.state === "running").length;
  const last = sinks.map((sink) => secondsBetween(sink.last_delivery_at, status.now)).filter((seconds) => seconds !== null);
  setText($("sum-sinks"), `${running} of ${sinks.length}`);
  setText($("sum-rate"), rate(sum((sink) => sink.rate)));
  setText($("sum-waiting"), count(sum((sink) => sink.backlog?.events), sinks.every((sink) => sink.backlog?.is_exact !== false)));
  setText($("sum-oldest"), duration(most((sink) => sink.backlog?.oldest_age)));
  setText($("sum-latency"), duration(most((sink) => sink.latency?.p99) || null));
  setText($("sum-dead"), count(sum((sink) => sink.dead)));
  setText($("sum-last"), last.length > 0 ? ago(Math.min(...last)) : "none yet");
}

function showConnection() {
  const age = arrived === null ? null : performance.now() - arrived;
  const isStale = isLost || (age !== null && age > STALE_MS);
  setHidden($("stale"), !isStale);
  setAttribute(document.body, "data-stale", isStale ? "yes" : null);
  setAttribute($("live"), "data-tone", isStale ? "bad" : age === null ? "idle" : "ok");
  setText($("live-word"), isStale ? "not connected" : age === null ? "connecting" : "live");
  if (!isStale) return;
  setText($("stale-words"), age === null
    ? "The relay cannot be reached. Is it running?"
    : `Connection lost: these figures are ${duration(Math.round(age / 1e3))} old. Trying again…`);
}

function showToken() {
  setText($("token-word"), hasToken() ? "Forget token" : "Enter token");
  setIcon($("token").firstElementChild, hasToken() ? "unlocked" : "locked");
}

function onStatus(status) {
  arrived = performance.now();
  isLost = false;
  setHidden($("main"), false);
  setText($("instance"), `${status.instance ?? ""}`);
  showConnection();
  showAttention(status);
  showSums(status);
  showSinks(status);
  showStages(status);
  showBlockedKeys(status);
  showDead(status);
  showRecent(status);
  showSource(status);
}

prepareDialog();
prepareRecent();
prepareDead();
$("token").addEventListener("click", () => (hasToken() ? forgetToken() : askForToken("It lets you pause, resume, redrive and drop.")));
document.addEventListener("token", showToken);
setInterval(showConnection, 1000);
showToken();
showConnection();
followStatus(onStatus, () => {
  isLost = true;
  showConnection();
});
