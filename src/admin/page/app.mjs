/*
 * The page: one status document a second, shown by the modules beside this one.
 * Nothing here knows more than that document says.
 */
import { ageOfLook, ageOfStatus, isLive, setRelayClock } from "./age.mjs";
import { prepareDead, showDead } from "./dead.mjs";
import { prepareDialog } from "./dialog.mjs";
import { $, setAttribute, setHidden, setIcon, setText } from "./dom.mjs";
import { ago, count, duration, rate, secondsBetween, unknown } from "./format.mjs";
import { prepareRecent, showBlockedKeys, showRecent, showRelays, showSource, showTaps } from "./lists.mjs";
import { instanceWords, prepareProblems, showProblems } from "./problems.mjs";
import { prepareReceiver, receiverView } from "./receiver.mjs";
import { prepareReceivers, showReceivers } from "./receivers.mjs";
import { showSchedules } from "./schedules.mjs";
import { prepareSheet } from "./sheet.mjs";
import { showSinks } from "./sinks.mjs";
import { showStages } from "./stages.mjs";
import { followStatus } from "./stream.mjs";
import { askForToken, forgetToken, hasToken } from "./token.mjs";
import { prepareTrace, traceView } from "./trace.mjs";

const STALE_MS = 4000;
let arrived = null; /* performance.now() of the last status */
let isLost = false;
let lastStatus = null;

/* All sinks in five figures. */
function showSums(status) {
  const sinks = status.sinks ?? [];
  const sum = (of) => sinks.reduce((all, sink) => all + (of(sink) ?? 0), 0);
  const most = (of) => sinks.reduce((all, sink) => Math.max(all, of(sink) ?? 0), 0);
  const running = sinks.filter((sink) => sink.state === "running").length;
  const last = sinks.map((sink) => secondsBetween(sink.last_delivery_at, status.now)).filter((seconds) => seconds !== null);
  setText($("sum-sinks"), `${running} of ${sinks.length}`);
  setText($("sum-rate"), isLive(status) ? rate(sum((sink) => sink.rate)) : unknown);
  setText($("sum-waiting"), count(sum((sink) => sink.backlog?.events), sinks.every((sink) => sink.backlog?.is_exact !== false)));
  setText($("sum-oldest"), duration(most((sink) => sink.backlog?.oldest_age)));
  setText($("sum-latency"), duration((isLive(status) && most((sink) => sink.latency?.p99)) || null));
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
  setText($("stale-words"), ageOfStatus(lastStatus, age / 1e3));
  if (lastStatus && !lastStatus.isCut) show({ ...lastStatus, isCut: true });
}

function showAge(status) {
  const words = ageOfLook(status);
  setHidden($("old"), words === "");
  setText($("old"), words);
  setAttribute($("main"), "data-old", isLive(status) && words === "" ? null : "yes");
}

function showInstance(status) {
  setText($("instance"), instanceWords(status));
  setAttribute($("instance"), "title", $("instance").textContent);
}

let canChange = true;

function showToken() {
  setHidden($("token"), !canChange && !hasToken());
  setHidden($("no-token"), canChange);
  setText($("token-word"), hasToken() ? "Forget token" : "Enter token");
  setIcon($("token").firstElementChild, hasToken() ? "unlocked" : "locked");
}

function show(status) {
  lastStatus = status;
  setHidden($("main"), false);
  canChange = status.can_change !== false;
  setAttribute(document.body, "data-read-only", canChange ? null : "yes");
  setAttribute(document.body, "data-away", isLive(status) ? null : "yes");
  showInstance(status);
  showToken();
  showAge(status);
  showProblems(status);
  showSums(status);
  showSinks(status);
  showReceivers(status);
  showStages(status);
  showBlockedKeys(status);
  showSchedules(status);
  showTaps(status);
  showRelays(status);
  showDead(status);
  showRecent(status);
  showSource(status);
}

function onStatus(status) {
  arrived = performance.now();
  isLost = false;
  setRelayClock(status.now);
  show(status);
  showConnection();
}

prepareDialog();
prepareRecent();
prepareDead();
prepareProblems(() => lastStatus && showProblems(lastStatus));
prepareReceivers();
prepareReceiver();
prepareTrace();
prepareSheet({ receiver: receiverView, event: traceView });
$("token").addEventListener("click", () => (hasToken() ? forgetToken() : askForToken("It lets you pause, resume, redrive and drop.")));
document.addEventListener("token", showToken);
setInterval(showConnection, 1000);
showToken();
showConnection();
followStatus(onStatus, () => {
  isLost = true;
  showConnection();
});
