/* The list of events or attempts, and one event in a dialog. */
import { $, list, make, setAttribute, setHidden, setText } from "./dom.mjs";
import { ago, answerWords, bytes, clock, count, duration, secondsBetween, unknown } from "./format.mjs";
import { cell, cells, setCells, setState } from "./rows.mjs";
import { get } from "./portal_api.mjs";

const looks = {
  delivered: { tone: "ok", icon: "check", word: "delivered" },
  retrying: { tone: "warn", icon: "again", word: "tried again" },
  retry: { tone: "warn", icon: "again", word: "failed" },
  waiting: { tone: "idle", icon: "clock", word: "waiting" },
  failed: { tone: "bad", icon: "cross", word: "given up" },
  dead: { tone: "bad", icon: "cross", word: "given up" },
  sink_down: { tone: "bad", icon: "alert", word: "not reached" },
  dropped: { tone: "idle", icon: "ring", word: "broken off" },
};
export const lookOf = (state) => looks[state] ?? { tone: "idle", icon: "ring", word: String(state) };

const kinds = {
  events: { path: "api/events", none: "No event of yours is among the newest ones." },
  open: { path: "api/open", none: "Nothing waits to be tried again, and nothing was given up." },
  attempts: { path: "api/attempts", none: "No attempt is known." },
  failed: { path: "api/attempts?failed=true", none: "No failed attempt is known." },
};

let items = [];
let next = null;
let kept = null; /* which attempts the sender keeps */
let onClosed = () => {};
let canResend = false;

/* What stands beside the state of an event. Pure. */
export function wordsOf(event, now) {
  const due = secondsBetween(now, event.next_at);
  const when = event.state === "retrying" && due !== null ? `next try ${due > 0 ? `in ${duration(Math.ceil(due))}` : "now"}` : "";
  return [event.error, when].filter(Boolean).join("; ");
}

function makeRow() {
  const row = cells("time", "state", "event", "topic", "tries", "took", "answer");
  const button = make("button", { type: "button" });
  button.addEventListener("click", () => openEvent(button.dataset.event));
  row.children[2].append(button);
  return row;
}

function fillRow(row, item, now) {
  const isAttempt = item.outcome !== undefined;
  const button = row.children[2].firstElementChild;
  setState(row.children[1], lookOf(item.outcome ?? item.state).word, lookOf(item.outcome ?? item.state));
  setText(button, String(item.event));
  setAttribute(button, "data-event", String(item.event));
  setAttribute(button, "aria-label", `Event ${item.event}`);
  setCells(row, clock(item.at ?? item.created_at, now), null, null, item.topic ?? "",
    isAttempt ? count(item.number) : item.attempts ? count(item.attempts) : "", isAttempt ? duration(item.took) : "",
    isAttempt ? answerWords(item) : wordsOf(item, now));
}

function show(which) {
  const now = new Date().toISOString();
  list($("rows"), items, (item) => `${item.event}\n${item.at ?? ""}\n${item.number ?? ""}`, makeRow, (row, item) => fillRow(row, item, now));
  setHidden($("table"), items.length === 0);
  setHidden($("none"), items.length > 0 || next !== null);
  setText($("none"), kinds[which].none);
  setHidden($("more"), next === null);
  const isAboutAttempts = which === "attempts" || which === "failed";
  setText($("events-note"), isAboutAttempts && kept === "failures" ? "only failed attempts are kept" : isAboutAttempts && kept === "none" ? "no attempts are kept" : "newest first");
}

/* The first page, or the next one. */
async function read(isMore) {
  const which = $("which").value;
  const { path } = kinds[which];
  const before = isMore && next !== null ? `${path.includes("?") ? "&" : "?"}before=${next}` : "";
  try {
    const answer = await get(path + before);
    if (which !== $("which").value) return;
    const page = answer.events ?? answer.attempts ?? [];
    items = isMore ? items.concat(page) : page;
    next = answer.next ?? null;
    setHidden($("list-error"), true);
    show(which);
  } catch (error) {
    if (error.status === 401) onClosed(error);
    setText($("list-error"), error.message);
    setHidden($("list-error"), false);
  }
}

export const renewList = () => read(false);

function facts(event, now) {
  return [
    ["webhook-id", event.event_id, "whole"],
    ["Topic", event.topic], ["Type", event.type], ["Key", event.key],
    ["Published", event.created_at ? `${clock(event.created_at, now)}, ${ago(secondsBetween(event.created_at, now))}` : null],
  ];
}

function showEvent(event) {
  const now = new Date().toISOString();
  setText($("event-title"), `Event ${event.event}`);
  setState($("event-state"), lookOf(event.state).word, lookOf(event.state));
  setText($("event-words"), wordsOf(event, now));
  list($("event-facts"), facts(event, now), (fact) => fact[0],
    (fact) => make("div", { class: fact[2] ?? null }, make("dt", {}, fact[0]), make("dd")),
    (node, [, text]) => setText(node.lastElementChild, text ?? unknown));
  setText($("event-note"), event.attempts.length === 0 ? (kept === "all" ? "none yet" : "none is kept; successful ones mostly are not") : "newest first");
  setHidden($("event-table"), event.attempts.length === 0);
  list($("event-attempts"), event.attempts, (attempt) => attempt.at,
    () => make("tr", { role: "row" }, ...["time", "outcome", "attempt", "took", "answer"].map((label) => cell(label))),
    (row, attempt) => {
      setState(row.children[1], lookOf(attempt.outcome).word, lookOf(attempt.outcome));
      setCells(row, clock(attempt.at, now), null, count(attempt.number), duration(attempt.took), answerWords(attempt));
    });
  const shown = event.payload ?? event.data_base64 ?? "";
  setText($("event-payload"), shown);
  setText($("event-size"), event.payload_bytes === null ? "not kept any more" : `${bytes(event.payload_bytes)}${event.data_base64 ? ", as base64" : ""}${event.payload_bytes > 65536 ? ", the beginning" : ""}`);
  setHidden($("event-resend"), !canResend || !["delivered", "failed"].includes(event.state));
  setAttribute($("event-resend"), "data-event", String(event.event));
  setHidden($("event-body"), false);
}

/* By number or webhook-id. */
export async function openEvent(id) {
  const dialog = $("event");
  setText($("event-title"), `Event ${id}`);
  setHidden($("event-error"), true);
  if (!dialog.open) {
    setHidden($("event-body"), true);
    setHidden($("event-resend"), true);
    dialog.showModal();
  }
  try {
    showEvent(await get(`api/events/${encodeURIComponent(id)}`));
  } catch (error) {
    if (error.status === 401) {
      dialog.close();
      onClosed(error);
    }
    setText($("event-error"), error.message);
    setHidden($("event-error"), false);
  }
}

/* What the receiver's state says about its lists. */
export function setListRules({ attempts_kept: which, may }) {
  kept = which;
  canResend = may.includes("resend");
}

export function prepareLists(closed) {
  onClosed = closed;
  $("which").addEventListener("change", () => {
    items = [];
    next = null;
    read(false);
  });
  $("more").addEventListener("click", () => read(true));
  $("tools").addEventListener("submit", (event) => {
    event.preventDefault();
    const id = $("find").value.trim().replace(/^#/, "").toLowerCase();
    if (id !== "") openEvent(id);
    else read(false);
  });
  $("event-close").addEventListener("click", () => $("event").close());
}
