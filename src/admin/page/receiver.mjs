/* The story of one receiver: how it is and since when, why, what waits, and its last attempts. */
import { pauseReceiver, resumeReceiver } from "./actions.mjs";
import { relayNow } from "./age.mjs";
import { get, path } from "./api.mjs";
import { $, list, make, setAttribute, setHidden, setIcon, setText } from "./dom.mjs";
import { ago, answerWords, brief, clock, count, duration, rate, secondsBetween, unknown } from "./format.mjs";
import { deliveryLook, receiverLook, receiverState } from "./looks.mjs";
import { cells, setCells, setLink, setState } from "./rows.mjs";
import { eventHref, renewSheet } from "./sheet.mjs";

let shown = null; /* {name, isActive} */

const since = (time, now) => (time ? `for ${brief(secondsBetween(time, now))}, since ${clock(time, now)}` : "");

/* Since when it is as it is, and why. Pure. */
export function receiverWords(receiver, now) {
  const state = receiverState(receiver);
  const from = since(state === "failing" ? receiver.failing_since : receiver.state_since, now);
  const reason = state === "failing" ? receiver.last_error : receiver.state_reason;
  return [from, reason].filter(Boolean).join(": ");
}

function facts(receiver, now) {
  const isSaid = receiverState(receiver) === "failing"; /* in the line on top */
  const at = (time, none) => (time ? `${ago(secondsBetween(time, now))}, ${clock(time, now)}` : none);
  const failed = at(receiver.last_failed_at, "none") + (receiver.last_error && !isSaid ? `: ${receiver.last_error}` : "");
  const limit = receiver.rate_limit > 0 ? `${rate(receiver.rate_limit)}, ${count(receiver.burst)} at once` : "no rate limit";
  const types = receiver.types?.length > 0 ? `types ${receiver.types.join(", ")}` : "";
  return [
    ["Waiting", `${count(receiver.waiting, receiver.waiting_is_exact)}${receiver.waiting > 0 ? `, oldest ${brief(secondsBetween(receiver.waiting_since, now))}` : ""}`],
    ["Retrying", count(receiver.retrying), receiver.retrying > 0 ? "warn" : ""],
    ["Blocked keys", count(receiver.blocked_keys), receiver.blocked_keys > 0 ? "warn" : ""],
    ["Dead", count(receiver.dead), receiver.dead > 0 ? "bad" : ""],
    ["Delivered", rate(receiver.rate)],
    ["Latency", `${duration(receiver.p50)}, p99 ${duration(receiver.p99)}`],
    ["Last delivery", at(receiver.last_delivered_at, "none yet"), "", "whole"],
    ["Last error", failed, "", "whole"],
    ["Takes", [receiver.topics?.join(", "), types].filter(Boolean).join("; "), "", "whole"],
    ...(receiver.filter ? [["Filter", receiver.filter, "", "whole"]] : []),
    ["Limits", `${count(receiver.concurrency)} at a time, ${limit}`, "", "whole"],
  ];
}

function makeAttempt() {
  return cells("time", "outcome", "event", "topic", "attempt", "took", "answer");
}

function updateAttempt(row, attempt, now) {
  setState(row.children[1], attempt.outcome, deliveryLook(attempt.outcome));
  setLink(row.children[2], String(attempt.outbox_id), eventHref(attempt.outbox_id));
  setCells(row, clock(attempt.at, now), null, null, attempt.topic ?? "", count(attempt.number), duration(attempt.took), answerWords(attempt));
  setAttribute(row, "title", `event ${attempt.event_id ?? attempt.outbox_id}${attempt.key ? `, key ${attempt.key}` : ""}`);
}

function show(receiver, [sink, name]) {
  const now = relayNow();
  const state = receiverState(receiver);
  shown = { name, isActive: receiver.state === "active" };
  setState($("story-state"), state, receiverLook(state));
  setText($("story-words"), receiverWords(receiver, now));
  setText($("story-target"), `to ${receiver.url ?? unknown}, of sink ${sink}`);
  list($("story-facts"), facts(receiver, now), (fact) => fact[0],
    (fact) => make("div", { class: fact[3] ?? null }, make("dt", {}, fact[0]), make("dd")),
    (node, [, text, tone = ""]) => {
      setText(node.lastElementChild, text || unknown);
      setAttribute(node, "data-tone", tone);
    });
  const attempts = receiver.attempts ?? [];
  list($("story-attempts"), attempts, (attempt) => `${attempt.outbox_id}\n${attempt.number}\n${attempt.at}`, makeAttempt,
    (row, attempt) => updateAttempt(row, attempt, now));
  setHidden($("story-table"), attempts.length === 0);
  setHidden($("story-none"), attempts.length > 0);
  const button = $("story-pause");
  setText(button.lastElementChild, shown.isActive ? "Pause" : "Resume");
  setIcon(button.firstElementChild, shown.isActive ? "pause" : "play");
  setAttribute(button, "class", shown.isActive ? "" : "primary");
}

export const receiverView = {
  panel: "story",
  title: ([, name]) => name,
  read: ([, name], signal) => get(`api/receivers/${path(name)}`, signal),
  show,
};

export function prepareReceiver() {
  $("story-pause").addEventListener("click", async () => {
    const { name, isActive } = shown;
    if (await (isActive ? pauseReceiver : resumeReceiver)(name)) renewSheet();
  });
}
