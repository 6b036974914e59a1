/* Recurring events: when they tick next, and what became of their last runs. */
import { pauseSchedule, resumeSchedule, runSchedule } from "./actions.mjs";
import { $, icon, list, make, setAttribute, setHidden, setText } from "./dom.mjs";
import { ago, count, duration, secondsBetween } from "./format.mjs";
import { deliveryLook, scheduleLook } from "./looks.mjs";
import { cells, setCells, setState } from "./rows.mjs";
import { eventHref } from "./sheet.mjs";

/* "in 5 min", "2 s late". Pure. */
export function untilWords(next, now) {
  const ahead = secondsBetween(now, next);
  if (ahead === null) return "";
  return ahead > 0 ? `in ${duration(ahead)}` : `${duration(secondsBetween(next, now))} late`;
}

/* What became of the last run that has ended. Pure. */
export function resultWords(schedule, now) {
  const run = schedule.runs.find(({ state }) => state !== "open");
  if (run === undefined) return schedule.runs.length > 0 ? "under way" : "none yet";
  return `${run.state} ${ago(secondsBetween(run.at, now))}`;
}

const runLook = (state) => deliveryLook(state === "open" ? "waiting" : state);

/* The oldest on the left: the strip grows as time does. */
function updateStrip(node, schedule) {
  list(node, [...schedule.runs].reverse(), (run) => run.id,
    () => make("a", { class: "run" }),
    (mark, run) => {
      setAttribute(mark, "href", eventHref(run.id));
      setAttribute(mark, "data-tone", runLook(run.state).tone);
      setAttribute(mark, "title", `${run.state}${run.by_hand ? ", run by hand" : ""}: event ${run.id}, ${run.at}`);
      setAttribute(mark, "aria-label", `${run.state}, event ${run.id}`);
    });
}

function button(word, sign, act) {
  const node = make("button", { type: "button", class: "quiet" }, icon(sign), make("span", {}, word));
  node.addEventListener("click", act);
  return node;
}

function makeRow(schedule) {
  const row = cells("schedule", "state", "ticks", "next", "last result", "runs", "skipped", "error", "change");
  const { name } = schedule;
  row.children[5].append(make("span", { class: "strip" }));
  row.children[8].append(make("span", { class: "choices changes" },
    button("Run now", "play", () => runSchedule(name)),
    button("Pause", "pause", () => (row.dataset.state === "paused" ? resumeSchedule(name) : pauseSchedule(name)))));
  return row;
}

function updateRow(row, schedule, now) {
  setAttribute(row, "data-state", schedule.state);
  setState(row.children[1], schedule.state, scheduleLook(schedule.state));
  setCells(row, schedule.name, null, schedule.timing, untilWords(schedule.next_at, now), resultWords(schedule, now), null,
    schedule.skipped > 0 ? count(schedule.skipped) : "", schedule.error ?? "", null);
  updateStrip(row.children[5].firstElementChild, schedule);
  setText(row.children[8].querySelector("button:last-child span"), schedule.state === "paused" ? "Resume" : "Pause");
  setHidden(row.children[8].querySelector("button:last-child"), schedule.state === "ended");
}

export function showSchedules(status) {
  const { states = {}, first = [] } = status.schedules ?? {};
  const all = Object.values(states).reduce((sum, n) => sum + n, 0);
  setHidden($("schedules"), first.length === 0);
  setText($("schedules-note"), all > first.length ? `${count(first.length)} of ${count(all)}, those that cannot tick first, then by their next tick` : "the last runs from left to right");
  list($("schedules-rows"), first, (schedule) => schedule.name, makeRow, (row, schedule) => updateRow(row, schedule, status.now));
}
