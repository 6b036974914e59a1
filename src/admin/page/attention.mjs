/*
 * What is stuck, why, and what to do about it: from a status document to a list
 * of problems, worst first. Pure.
 *
 *   {id, level: "bad" | "warn" | "note", title, lasts?, why, remedy, command?, action?}
 *
 * `id` stays the same while the problem does; `lasts` is in seconds. `action` is what a button beside it does:
 * {kind: "resume" | "dead" | "blocked" | "reload", sink?}. A note needs nobody's hand.
 */
import { bytes, count, counted, duration, percent, secondsBetween, shellWord } from "./format.mjs";

/* Above these a thing is worth a line: the same as of `pgcourier status` (attention.c). */
export const limits = { queueUsage: 0.5, xminAge: 300, late: 300 };

const levels = ["bad", "warn", "note"];
const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);
const join = (...parts) => parts.filter(Boolean).map(sentence).join(" ");

/* `pgcourier NAME …`, with the file that the relay was started with. */
export function commandLine(status, ...words) {
  const file = status.config?.file;
  return ["pgcourier", ...words, ...(file ? ["-c", file] : [])].map(shellWord).join(" ");
}

const waiting = (sink) => {
  const backlog = sink.backlog;
  if (!backlog || !backlog.events) return "nothing waits";
  const oldest = backlog.oldest_age ? `, the oldest for ${duration(backlog.oldest_age)}` : "";
  return `${counted(backlog.events, "event", "events", backlog.is_exact)} wait${backlog.events === 1 ? "s" : ""}${oldest}`;
};

const reason = (sink) => sink.state_reason || sink.last_error?.words || "";

const states = {
  down: (sink, status) => ({
    level: "bad",
    title: `${sink.name} is down`,
    why: join(reason(sink), waiting(sink)),
    remedy: "Bring the destination back. The relay tries it every few seconds and then goes on by itself; nothing is lost and no attempt is counted.",
    command: commandLine(status, "doctor"),
  }),
  refused: (sink) => ({
    level: "bad",
    title: `${sink.name} refuses us`,
    why: join(reason(sink), waiting(sink)),
    remedy: "Somebody has to change its settings or ours (a login, an address, a certificate). Then resume it; the relay also tries now and then.",
    action: { kind: "resume", sink: sink.name },
  }),
  paused: (sink) => ({
    level: "warn",
    title: `${sink.name} is paused`,
    why: join(sink.state_reason ? `By an operator: ${sink.state_reason}` : "By an operator, who gave no reason", waiting(sink)),
    remedy: "Resume it when it may go on; events wait meanwhile.",
    action: { kind: "resume", sink: sink.name },
  }),
  stalled: (sink, status) => ({
    level: "bad",
    title: `${sink.name} stands still`,
    why: join(reason(sink), `${waiting(sink)}, and nothing was delivered meanwhile`),
    remedy: sink.blocked
      ? "Look at the keys that are blocked below: what they wait behind fails again and again."
      : "The doctor looks at the connection, the locks and the destination, and says what it found.",
    command: commandLine(status, "doctor"),
    ...(sink.blocked ? { action: { kind: "blocked", sink: sink.name } } : {}),
  }),
  unowned: (sink, status) => ({
    level: "bad",
    title: `No relay delivers ${sink.name}`,
    why: join(reason(sink), waiting(sink)),
    remedy: "Start a relay whose configuration names this sink.",
    command: commandLine(status, "run"),
  }),
};

function ofSinks(status) {
  const found = [];
  for (const sink of status.sinks ?? []) {
    const problem = states[sink.state]?.(sink, status);
    if (problem)
      found.push({ id: `${sink.state}:${sink.name}`, lasts: secondsBetween(sink.state_since, status.now), ...problem });
    else if (sink.state === "running" && (sink.backlog?.oldest_age ?? 0) >= limits.late) found.push(behind(sink));
    if (sink.dead > 0) found.push(deadLetters(sink, status));
    const endpoints = sink.endpoints;
    if (endpoints && (endpoints.failing > 0 || endpoints.disabled > 0)) found.push(failingEndpoints(sink, status));
  }
  return found;
}

/* At the present rate, while more arrives: the difference is not known, so this is a lower bound. */
function behind(sink) {
  const left = sink.rate > 0 && sink.backlog.events > 0 ? sink.backlog.events / sink.rate : null;
  return {
    id: `behind:${sink.name}`,
    level: "warn",
    title: `${sink.name} is behind`,
    why: join(waiting(sink)),
    remedy: left === null ? "" : `At the present rate that is at least ${duration(left)} of work.`,
  };
}

function deadLetters(sink, status) {
  return {
    id: `dead:${sink.name}`,
    level: "warn",
    title: `${sink.counts_are_exact === false ? "At least " : ""}${counted(sink.dead, "dead letter")} of ${sink.name}`,
    why: "Given up: refused for good, or failed too often.",
    remedy: "Remove the cause, then redrive them; or drop what nobody needs.",
    command: commandLine(status, "dead", "list", "--sink", sink.name),
    action: { kind: "dead", sink: sink.name },
  };
}

function failingEndpoints(sink, status) {
  const { failing, disabled, total } = sink.endpoints;
  const words = [failing ? `${count(failing)} failing` : "", disabled ? `${count(disabled)} disabled` : ""].filter(Boolean);
  return {
    id: `endpoints:${sink.name}`,
    level: "warn",
    title: `Receivers of ${sink.name}: ${words.join(", ")}`,
    why: `Of ${count(total)}; the others are served all the same.`,
    remedy: "The list says since when and why; enable a receiver again when it is mended.",
    command: commandLine(status, "endpoint", "list", "--sink", sink.name),
  };
}

/* One line for each sink, about the key that most wait for. */
function ofBlockedKeys(status) {
  const worst = new Map();
  for (const key of status.blocked_keys ?? []) {
    if (key.behind_id === null) continue; /* what they wait behind is under way now */
    const other = worst.get(key.sink);
    worst.set(key.sink, { key: !other || key.waiting > other.key.waiting ? key : other.key, n: (other?.n ?? 0) + 1 });
  }
  return [...worst].map(([sink, { key, n }]) => ({
    id: `blocked:${sink}`,
    level: "warn",
    title: n > 1 ? `${n} keys of ${sink} are blocked` : `Key ${key.key} of ${sink} is blocked`,
    why: join(`${counted(key.waiting, "event")} of key ${key.key} wait${key.waiting === 1 ? "s" : ""} behind event ${key.behind_id}, which fails`, key.error),
    remedy: "It goes on when that event is delivered: mend the cause and try it at once, or skip it (it becomes a dead letter).",
    command: commandLine(status, "parked", "retry", "--sink", sink, String(key.behind_id)),
    action: { kind: "blocked", sink },
  }));
}

function ofSource(status) {
  const source = status.source;
  const found = [];
  if (!source) return found;
  if (source.up === false)
    found.push({
      id: "source",
      level: "bad",
      title: "PostgreSQL cannot be reached",
      why: join(source.error || "The connection is lost"),
      remedy: "Nothing is delivered until it is back; the relay connects again by itself and nothing is lost.",
      command: commandLine(status, "doctor"),
    });
  else if (status.look_error)
    found.push({
      id: "look",
      level: "warn",
      title: "The database could not be looked at",
      why: join(status.look_error),
      remedy: "Deliveries go on; backlogs, dead letters and blocked keys are those of the last look.",
      command: commandLine(status, "doctor"),
    });
  if (source.notify_queue_usage >= limits.queueUsage)
    found.push({
      id: "queue",
      level: "bad",
      title: `The notification queue is ${percent(source.notify_queue_usage)} full`,
      why: "A session that listens sits in a long transaction. When the queue is full, every commit that notifies fails, and publishing with it.",
      remedy: "End that session; the doctor names it.",
      command: commandLine(status, "doctor"),
    });
  const held = source.oldest_xmin;
  if (held && held.age >= limits.xminAge)
    found.push({
      id: "xmin",
      level: "warn",
      title: `A snapshot is held${held.pid ? ` by process ${held.pid}` : ""}`,
      lasts: held.age,
      why: join(held.what, "Delivery goes on, but PostgreSQL cannot clean up what is newer, and tables grow"),
      remedy: held.pid ? "Have its owner commit or roll back, or end it:" : "Commit or roll it back, or drop what holds it.",
      ...(held.pid ? { command: `psql -c 'SELECT pg_terminate_backend(${Number(held.pid)})'` } : {}),
    });
  return found;
}

function ofCursors(status) {
  const size = status.source?.outbox_bytes ? ` (the outbox has ${bytes(status.source.outbox_bytes)})` : "";
  return (status.orphans ?? []).map((orphan) => ({
    id: `orphan:${orphan.sink}`,
    level: "warn",
    title: `The cursor of ${orphan.sink} holds the log`,
    why: join(`No running relay has a sink of that name, and it is ${counted(orphan.behind, "event")} behind; retention keeps them for it${size}`),
    remedy: "Configure the sink again, or drop its cursor.",
    command: commandLine(status, "cursor", "drop", orphan.sink),
  }));
}

function ofConfig(status) {
  if (status.config?.last_reload_ok !== false) return [];
  return [
    {
      id: "config",
      level: "warn",
      title: "The changed configuration was not taken",
      why: join(status.config.last_reload_error),
      remedy: "The relay goes on with the old one. Correct the file, check it, and reload.",
      command: commandLine(status, "check"),
      action: { kind: "reload" },
    },
  ];
}

/* Other relays have the lanes: nothing is wrong, and people should not look for deliveries here. */
function ofStandby(status) {
  const idle = (status.sinks ?? []).filter((sink) => sink.state === "standby");
  if (idle.length === 0) return [];
  const owner = idle.find((sink) => sink.owner)?.owner;
  const where = owner ? ` (process ${owner.pid} of the database${owner.client ? `, from ${owner.client}` : ""})` : "";
  return [
    {
      id: "standby",
      level: "note",
      title: idle.length === status.sinks.length ? "This relay stands by" : `This relay stands by for ${idle.map((sink) => sink.name).join(", ")}`,
      why: `Another one delivers${where}.`,
      remedy: "It takes over by itself when that one ends.",
    },
  ];
}

/* What /readyz says and nothing above explains. */
function ofReadiness(status, found) {
  if (status.ready !== false || found.some((problem) => problem.level === "bad")) return [];
  return (status.not_ready ?? []).map((words, i) => ({
    id: `ready:${i}`,
    level: "bad",
    title: "Not ready",
    why: join(words),
    remedy: "",
    command: commandLine(status, "doctor"),
  }));
}

export function whatNeedsAttention(status) {
  const found = [
    ...ofSource(status),
    ...ofSinks(status),
    ...ofBlockedKeys(status),
    ...ofCursors(status),
    ...ofConfig(status),
    ...ofStandby(status),
  ];
  found.push(...ofReadiness(status, found));
  return found
    .map((problem, i) => ({ problem, i }))
    .sort((a, b) => levels.indexOf(a.problem.level) - levels.indexOf(b.problem.level) || a.i - b.i)
    .map(({ problem }) => problem);
}

/* The one line on top. Without figures that change each second: it is read out when it changes. */
export function headline(status, problems) {
  const open = problems.filter((problem) => problem.level !== "note");
  if (open.length === 1) return `One thing needs a look: ${open[0].title}`;
  if (open.length > 1) return `${open.length} things need a look`;
  if (problems.some((problem) => problem.id === "standby")) return "All well, standing by";
  return "All well";
}
