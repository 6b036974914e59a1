/*
 * The page: one status document a second, shown by the modules beside this one.
 * Nothing here knows more than that document says.
 */
import { prepareDead, showDead } from "./dead.mjs";
import { prepareDialog } from "./dialog.mjs";
import { $, setAttribute, setHidden, setIcon, setText } from "./dom.mjs";
import { ago, clock, count, counted, duration, rate, secondsBetween } from "./format.mjs";
import { prepareRecent, showBlockedKeys, showRecent, showSource, showTaps } from "./lists.mjs";
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

/* What only the database knows is that of the last look: it is dated, and stands back. */
function showAge(status) {
  const isOld = status.source?.up === false || Boolean(status.look_error);
  setHidden($("old"), !isOld || !status.looked_at);
  setAttribute($("main"), "data-old", isOld ? "yes" : null);
  if (!isOld || !status.looked_at) return;
  setText($("old"), `Backlogs and counts are those of ${clock(status.looked_at, status.now)}, ${ago(secondsBetween(status.looked_at, status.now))}, when the database last answered.`);
}

/* Which of several: the database, where it is, and the process. */
function showInstance(status) {
  const { database, server } = status.source ?? {};
  const place = database ? `${database} at ${server}` : "";
  setText($("instance"), [place, status.instance ?? "", status.config?.file ?? ""].filter(Boolean).join(" · "));
  setAttribute($("instance"), "title", $("instance").textContent);
}

let canChange = true;

function showToken() {
  setHidden($("token"), !canChange && !hasToken());
  setHidden($("no-token"), canChange);
  setText($("token-word"), hasToken() ? "Forget token" : "Enter token");
  setIcon($("token").firstElementChild, hasToken() ? "unlocked" : "locked");
}

function onStatus(status) {
  arrived = performance.now();
  isLost = false;
  setHidden($("main"), false);
  canChange = status.can_change !== false;
  setAttribute($("main"), "data-read-only", canChange ? null : "yes");
  showInstance(status);
  showToken();
  showConnection();
  showAge(status);
  showProblems(status);
  showSums(status);
  showSinks(status);
  showStages(status);
  showBlockedKeys(status);
  showTaps(status);
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
