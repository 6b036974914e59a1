/*
 * The page: one status document a second, shown by the modules beside this one.
 * Nothing here knows more than that document says.
 */
import { prepareDead, showDead } from "./dead.mjs";
import { prepareDialog } from "./dialog.mjs";
import { $, setAttribute, setHidden, setIcon, setText } from "./dom.mjs";
import { ago, count, counted, duration, rate, secondsBetween } from "./format.mjs";
import { prepareRecent, showBlockedKeys, showRecent, showSource } from "./lists.mjs";
import { showProblems } from "./problems.mjs";
import { showSinks, showStages } from "./sinks.mjs";
import { followStatus } from "./stream.mjs";
import { askForToken, forgetToken, hasToken } from "./token.mjs";

const STALE_MS = 4000;
let arrived = null; /* performance.now() of the last status */
let isLost = false;

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
  showProblems(status);
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
