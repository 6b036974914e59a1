/*
 * What is stuck, why, and what helps, as the status document's `attention` says;
 * the relay decides that, for all who ask (findings.c).
 */
import { reloadConfig, resumeSink } from "./actions.mjs";
import { chooseDeadSink } from "./dead.mjs";
import { $, goTo, icon, list, make, makeCommand, setAttribute, setHidden, setIcon, setText } from "./dom.mjs";
import { counted, duration } from "./format.mjs";
import { chooseReceivers, hasReceivers } from "./receivers.mjs";

const looks = { error: { icon: "cross", word: "Error" }, warning: { icon: "alert", word: "Warning" }, note: { icon: "info", word: "Note" } };

const FEW = 5; /* more of them would push the sinks out of sight */
let showsAll = false;

const actions = {
  resume: { label: "Resume", run: (sink) => resumeSink(sink) },
  reload: { label: "Reload", run: () => reloadConfig() },
  blocked: { label: "Show the keys", run: () => goTo("blocked") },
  dead: {
    label: "Show them",
    run: (sink) => {
      chooseDeadSink(sink);
      goTo("dead");
    },
  },
  receivers: {
    label: "Show them",
    run: (sink) => {
      chooseReceivers(sink);
      goTo("receivers");
    },
  },
};

function makeProblem(problem) {
  const command = makeCommand();
  const button = make("button", { type: "button", class: "primary" });
  const parts = { title: make("b"), lasts: make("span", { class: "muted" }), why: make("p"), remedy: make("p", { class: "remedy" }), command, button };
  const look = looks[problem.level];
  button.addEventListener("click", () => actions[button.dataset.kind].run(button.dataset.sink));
  const node = make("li", { "data-level": problem.level },
    make("span", { class: "level" }, icon(look.icon), look.word),
    make("div", {}, make("p", { class: "title" }, parts.title, parts.lasts), parts.why, parts.remedy),
    make("div", { class: "help" }, command.node, button));
  node.parts = parts;
  return node;
}

/* What there is to press: nothing that would be refused without a token, nothing that is not on the page. */
function actionOf({ id, sink, action }, canChange) {
  if (id === `receivers:${sink}` && hasReceivers()) return { kind: "receivers", sink };
  const changes = action?.kind === "resume" || action?.kind === "reload";
  return changes && !canChange ? null : action;
}

function updateProblem(node, problem, canChange) {
  const { title, lasts, why, remedy, command, button } = node.parts;
  setText(title, problem.title);
  setText(lasts, problem.lasts ? ` for ${duration(problem.lasts)}` : "");
  setText(why, problem.why);
  setText(remedy, problem.remedy);
  setHidden(command.node, !problem.command);
  setText(command.code, problem.command ?? "");
  const action = actionOf(problem, canChange);
  setHidden(button, !action);
  if (!action) return;
  setText(button, actions[action.kind].label);
  setAttribute(button, "data-kind", action.kind);
  setAttribute(button, "data-sink", action.sink ?? "");
}

/* The one line on top, which counts all that is listed under it. Without figures that change each
 * second: it is read out when it changes. */
export function headline(problems) {
  const open = problems.filter((problem) => problem.level !== "note");
  const nNotes = problems.length - open.length;
  const notes = nNotes > 0 ? `, and ${counted(nNotes, "note")}` : "";
  if (open.length === 1) return `One thing needs a look: ${open[0].title}${notes}`;
  if (open.length > 1) return `${open.length} things need a look${notes}`;
  if (problems.some((problem) => problem.id === "standby")) return "All well, standing by";
  return "All well";
}

export function showProblems(status) {
  const problems = status.attention ?? [];
  const n = problems.filter((problem) => problem.level !== "note").length;
  const level = n > 0 ? problems[0].level : "ok"; /* the worst comes first */
  setAttribute($("top"), "data-level", level);
  setIcon($("top-icon"), { ok: "check", warning: "alert", error: "cross" }[level]);
  setText($("headline"), headline(problems));
  const isLong = problems.length > FEW + 1;
  list($("problems"), isLong && !showsAll ? problems.slice(0, FEW) : problems, (problem) => `${problem.id}:${problem.level}`, makeProblem,
    (node, problem) => updateProblem(node, problem, status.can_change !== false));
  setHidden($("problems-more"), !isLong);
  setText($("problems-more"), showsAll ? "Show fewer" : `Show ${problems.length - FEW} more`);
  setText(document.querySelector("title"), `${n > 0 ? `(${n}) ` : ""}${instanceWords(status, " · pgcourier")}`);
}

/* Which of several: the database, where it is, the relay and its file. */
export function instanceWords(status, end = "") {
  const { database, server } = status.source ?? {};
  const words = [database ? `${database} at ${server}` : "", status.instance ?? "", status.config?.file ?? ""].filter(Boolean).join(" · ");
  return words === "" ? "pgcourier" : words + end;
}

export function prepareProblems(showAgain) {
  $("problems-more").addEventListener("click", () => {
    showsAll = !showsAll;
    showAgain();
  });
}
