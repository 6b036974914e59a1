/*
 * The receivers of sinks that fan out, page by page from the relay, which searches and sorts them: those in
 * trouble first. There may be many thousands, so no more than a page of them is ever here.
 */
import { get } from "./api.mjs";
import { $, list, make, setAttribute, setHidden, setOptions, setText } from "./dom.mjs";
import { ago, brief, count, duration, rate, secondsBetween } from "./format.mjs";
import { makeHold } from "./hold.mjs";
import { receiverLook, receiverState } from "./looks.mjs";
import { cells, setCells, setLink, setState } from "./rows.mjs";
import { openPlaces, receiverHref } from "./sheet.mjs";

const PAGE = 50;
const RENEW_MS = 5000;
const TYPING_MS = 250;

let routes = "unknown"; /* asked for, there, missing: an older relay has none */
let status = null;
let page = { total: 0, receivers: [] };
let offset = 0;
let hasRead = false;
let readAt = -Infinity;
let reading = null;
let typing;
let hold = { isOn: false };
let isOnScreen = false;

const fanOuts = () => (status.sinks ?? []).filter((sink) => sink.receivers);

/* Which of n are shown: "51 to 100 of 10,000". Pure. */
export function range(from, n, total) {
  if (total === 0) return "none";
  return n === total ? count(total) : `${count(from + 1)} to ${count(from + n)} of ${count(total)}`;
}

/* The page that holds the last of them, if there are fewer than there were. Pure. */
export const lastOffset = (total) => Math.max(0, Math.floor((total - 1) / PAGE) * PAGE);

function query() {
  const sinks = fanOuts();
  const sink = sinks.length === 1 ? sinks[0].name : $("receivers-sink").value;
  const asked = { sink, search: $("receivers-search").value.trim(), state: $("receivers-state").value, limit: PAGE, offset };
  return new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== ""));
}

async function read() {
  reading?.abort();
  reading = new AbortController();
  const { signal } = reading;
  readAt = performance.now();
  try {
    const answer = await get(`api/receivers?${query()}`, signal);
    if (signal.aborted) return;
    if (answer.receivers.length === 0 && answer.total > 0 && offset > 0) {
      offset = lastOffset(answer.total);
      await read();
      return;
    }
    page = answer;
    hasRead = true;
    setHidden($("receivers-error"), true);
    show();
  } catch (error) {
    if (signal.aborted) return;
    setText($("receivers-error"), `${hasRead ? "This list is old: " : ""}${error.message}`);
    setHidden($("receivers-error"), false);
  }
  readAt = performance.now();
}

function makeRow() {
  const row = cells("receiver", "state", "waiting", "oldest", "retrying", "dead", "delivered", "latency", "last delivery", "error");
  setAttribute(row.firstElementChild, "class", "name");
  return row;
}

function updateRow(row, receiver) {
  const { now } = status;
  const state = receiverState(receiver);
  const isMany = fanOuts().length > 1;
  const place = $("receivers-sink").value === "" && isMany ? `${receiver.sink}/${receiver.name}` : receiver.name;
  setLink(row.children[0], place, receiverHref(receiver.sink, receiver.name));
  setAttribute(row.children[0], "title", receiver.url ?? null);
  setState(row.children[1], state, receiverLook(state));
  setCells(row, null, null, count(receiver.waiting, receiver.waiting_is_exact), receiver.waiting > 0 ? brief(secondsBetween(receiver.waiting_since, now)) : "",
    count(receiver.retrying), count(receiver.dead), rate(receiver.rate), duration(receiver.p50), ago(secondsBetween(receiver.last_delivered_at, now)),
    errorWords(receiver, state));
  setAttribute(row.children[4], "data-tone", receiver.retrying > 0 ? "warn" : null);
  setAttribute(row.children[5], "data-tone", receiver.dead > 0 ? "bad" : null);
}

/* Why it stands still; else its last error as long as it fails. */
function errorWords(receiver, state) {
  if (state === "paused" || state === "disabled") return receiver.state_reason ?? "";
  return state === "failing" || receiver.retrying > 0 ? receiver.last_error ?? "" : "";
}

function show() {
  list($("receivers-rows"), page.receivers, (receiver) => `${receiver.sink}/${receiver.name}`, makeRow, updateRow);
  setText($("receivers-range"), range(offset, page.receivers.length, page.total));
  setHidden($("receivers-none"), page.total > 0);
  setHidden($("receivers-table"), page.total === 0);
  $("receivers-back").disabled = offset === 0;
  $("receivers-next").disabled = offset + PAGE >= page.total;
}

function turn(to) {
  offset = to;
  $("receivers-scroll").scrollTop = 0;
  return read();
}

/* Asks once whether the relay has them. */
async function find() {
  routes = "asked for";
  try {
    await get("api/receivers?limit=1");
    routes = "there";
  } catch (error) {
    routes = { 404: "missing", 0: "unknown" }[error.status] ?? "there";
  }
  if (routes !== "there") return;
  openPlaces();
  setHidden($("find"), false);
  if (status !== null) showReceivers(status);
}

function sums(sinks) {
  const sum = (of) => sinks.reduce((all, sink) => all + (sink.receivers[of] ?? 0), 0);
  return ["failing", "disabled", "paused"].map((state) => [sum(state), state]).filter(([n]) => n > 0).map(([n, state]) => `${count(n)} ${state}`);
}

/* "40 receivers: 2 failing, 1 paused" of one sink. */
export function receiversWords(sink) {
  if (!sink.receivers) return "";
  const { total } = sink.receivers;
  return `${count(total)} ${total === 1 ? "receiver" : "receivers"}${sums([sink]).length > 0 ? `: ${sums([sink]).join(", ")}` : ""}`;
}

export function showReceivers(newStatus) {
  status = newStatus;
  if (routes === "unknown") find();
  const sinks = fanOuts();
  const isShown = routes === "there" && sinks.length > 0;
  setHidden($("receivers"), !isShown);
  if (!isShown) return;
  setHidden($("receivers-sink-label"), sinks.length < 2);
  setOptions($("receivers-sink"), sinks.map((sink) => sink.name), "all sinks");
  setText($("receivers-note"), sums(sinks).join(", "));
  const isDue = performance.now() - readAt > RENEW_MS && isOnScreen && !hold.isOn && !document.hidden;
  if (!hasRead || isDue) read();
}

export const hasReceivers = () => routes === "there";

/* Those of one sink, or of all; in trouble or not, the list has them on top. */
export function chooseReceivers(sink) {
  $("receivers-search").value = "";
  $("receivers-state").value = "";
  $("receivers-sink").value = sink;
  return turn(0);
}

export function prepareReceivers() {
  hold = makeHold($("receivers-scroll"), (isOn) => setText($("receivers-held"), isOn ? "held while you read" : ""));
  new IntersectionObserver((entries) => {
    isOnScreen = entries.at(-1).isIntersecting;
  }).observe($("receivers"));
  $("receivers-search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(turn, TYPING_MS, 0);
  });
  for (const id of ["receivers-sink", "receivers-state"]) $(id).addEventListener("change", () => turn(0));
  $("receivers-tools").addEventListener("submit", (event) => event.preventDefault());
  $("receivers-back").addEventListener("click", () => turn(Math.max(0, offset - PAGE)));
  $("receivers-next").addEventListener("click", () => turn(offset + PAGE));
}
