/* What people can do here: each asks if it is to be asked, is a POST, and tells what came of it. */
import { path } from "./api.mjs";
import { ask, tell } from "./dialog.mjs";
import { counted } from "./format.mjs";
import { askForToken, authorization, forgetToken, hasToken } from "./token.mjs";

/* The answer's document, or null after the reason was told. */
async function post(route, body) {
  let why = "Changing something needs the endpoint's token.";
  for (;;) {
    let response, answer;
    try {
      response = await fetch(route, {
        method: "POST",
        headers: { "Content-Type": "application/json", ...authorization() },
        body: JSON.stringify(body),
        cache: "no-store",
      });
      answer = await response.json().catch(() => ({}));
    } catch {
      tell("The relay cannot be reached; nothing was changed as far as we know.", true);
      return null;
    }
    if (response.ok) return answer;
    if (response.status !== 401) {
      tell(answer.error ?? `The relay answered ${response.status}.`, true);
      return null;
    }
    if (hasToken()) why = "That token was refused.";
    forgetToken();
    if (!(await askForToken(why))) return null;
  }
}

/* These answer whether it was done. */
async function pause(name, route) {
  const reason = await ask({
    title: `Pause ${name}?`,
    text: "Nothing is delivered to it until it is resumed; its events wait. Every relay obeys, also after a restart.",
    field: { label: "Reason, for those who wonder (optional)", type: "text" },
    confirm: "Pause",
  });
  if (reason === null || !(await post(route, reason.trim() ? { reason: reason.trim() } : {}))) return false;
  tell(`${name} is paused.`);
  return true;
}

async function resume(name, route) {
  if (!(await post(route, {}))) return false;
  tell(`${name} goes on.`);
  return true;
}

const ofSink = (name, verb) => `api/sinks/${path(name)}/${verb}`;
const ofReceiver = (name, verb) => `api/receivers/${path(name)}/${verb}`;

export const pauseSink = (name) => pause(name, ofSink(name, "pause"));
export const resumeSink = (name) => resume(name, ofSink(name, "resume"));
export const pauseReceiver = (name) => pause(name, ofReceiver(name, "pause"));
export const resumeReceiver = (name) => resume(name, ofReceiver(name, "resume"));

async function changeSchedule(name, verb, words) {
  const answer = await post(`api/schedules/${verb}`, { name });
  if (answer !== null) tell(words);
}

export const runSchedule = (name) => changeSchedule(name, "run", `${name} runs now, besides its ticks.`);
export const pauseSchedule = (name) => changeSchedule(name, "pause", `${name} is paused; its ticks are left out until it is resumed.`);
export const resumeSchedule = (name) => changeSchedule(name, "resume", `${name} ticks again.`);

export async function reloadConfig() {
  const answer = await post("api/reload", {});
  if (answer === null) return;
  const changes = ["added", "changed", "removed"].filter((what) => answer[what]?.length > 0).map((what) => `${what}: ${answer[what].join(", ")}`);
  tell(`The configuration was read again; ${changes.join("; ") || "no sink has changed"}.`);
}

/* `selection` is {ids} or {sink, all: true}; `n` is how many that is, as far as is known. */
export async function redriveDead(selection, n) {
  const isSure = await ask({
    title: `Redrive ${counted(n, "dead letter")}?`,
    text: "The same events are delivered again, with the same ids, behind what waits of their keys.",
    confirm: "Redrive",
  });
  if (isSure === null) return false;
  const answer = await post("api/dead/redrive", selection);
  if (answer !== null) tell(resultWords(answer, "redriven", n));
  return answer !== null;
}

export async function dropDead(selection, n) {
  const isSure = await ask({
    title: `Drop ${counted(n, "dead letter")}?`,
    text: "These events will never be delivered to that sink. This cannot be undone.",
    confirm: "Drop",
    isDangerous: true,
  });
  if (isSure === null) return false;
  const answer = await post("api/dead/drop", selection);
  if (answer !== null) tell(resultWords(answer, "dropped", n));
  return answer !== null;
}

function resultWords(answer, verb, n) {
  return answer.words ?? `${counted(answer[verb] ?? n, "dead letter")} ${verb}.`;
}
