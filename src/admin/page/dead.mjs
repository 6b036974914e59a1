/*
 * The dead letters: read page by page when it is asked for or their number has
 * changed, never each second; what is chosen stays chosen.
 */
import { dropDead, redriveDead } from "./actions.mjs";
import { get } from "./api.mjs";
import { tell } from "./dialog.mjs";
import { $, list, make, setAttribute, setHidden, setOptions, setText } from "./dom.mjs";
import { ago, count, counted, secondsBetween, unknown } from "./format.mjs";
import { cell, setLink } from "./rows.mjs";
import { eventHref, receiverHref } from "./sheet.mjs";

const PAGE = 50;
const state = { letters: [], hasMore: false, chosen: new Set(), counts: new Map(), seen: "", isReading: false };

const sinkName = () => $("dead-sink").value;
const total = () => (sinkName() ? state.counts.get(sinkName()) ?? 0 : [...state.counts.values()].reduce((sum, n) => sum + n, 0));

function readPage(before) {
  const query = new URLSearchParams({ limit: String(PAGE) });
  if (sinkName()) query.set("sink", sinkName());
  if (before !== null) query.set("before", String(before));
  return get(`api/dead?${query}`);
}

/* From the newest on, or (isMore) what comes behind those that are there. */
async function read(isMore) {
  if (state.isReading) return;
  state.isReading = true;
  try {
    const page = await readPage(isMore ? state.letters.at(-1).id : null);
    state.letters = isMore ? [...state.letters, ...page.dead] : page.dead;
    state.hasMore = page.more;
    const ids = new Set(state.letters.map((letter) => letter.id));
    for (const id of state.chosen) if (!ids.has(id)) state.chosen.delete(id);
  } catch (error) {
    tell(`The dead letters could not be read: ${error.message}`, true);
  } finally {
    state.isReading = false;
  }
  show();
}

function makeRow(letter) {
  const box = make("input", { type: "checkbox", "aria-label": `Choose dead letter ${letter.id}` });
  box.addEventListener("change", () => {
    if (box.checked) state.chosen.add(letter.id);
    else state.chosen.delete(letter.id);
    showTools();
  });
  return make("tr", { role: "row" }, cell("", box), ...["id", "sink", "event", "topic", "key", "reason", "attempts", "died", "error"].map((label) => cell(label)));
}

function updateRow(row, letter) {
  const died = secondsBetween(letter.died_at, new Date().toISOString());
  const texts = [String(letter.id), null, null, letter.topic ?? "", letter.key ?? "", letter.reason, count(letter.attempts), ago(died), letter.error ?? ""];
  texts.forEach((text, i) => text !== null && setText(row.children[i + 1], text));
  setLink(row.children[2], letter.receiver ? `${letter.sink}/${letter.receiver}` : letter.sink, letter.receiver ? receiverHref(letter.sink, letter.receiver) : null);
  setLink(row.children[3], String(letter.outbox_id ?? unknown), letter.outbox_id ? eventHref(letter.outbox_id) : null);
  setAttribute(row.children[8], "title", letter.died_at);
  setAttribute(row.children[9], "title", letter.error ?? null);
  setAttribute(row, "title", `event ${letter.event_id}${letter.source ? ` from ${letter.source}` : ""}${letter.target ? ` to ${letter.target}` : ""}`);
  row.querySelector("input").checked = state.chosen.has(letter.id);
}

function show() {
  list($("dead-rows"), state.letters, (letter) => letter.id, makeRow, updateRow);
  setHidden($("dead-more"), !state.hasMore);
  setHidden($("dead-none"), state.letters.length > 0);
  setHidden($("dead-tools"), state.letters.length === 0 && total() === 0 && sinkName() === "");
  setHidden($("dead-table"), state.letters.length === 0);
  showTools();
}

function showTools() {
  const n = state.chosen.size;
  const isAll = n === 0 && sinkName() !== "";
  const what = n > 0 ? `${n} chosen` : isAll ? `all ${count(total())}` : "";
  setText($("dead-note"), state.letters.length > 0 ? `${count(state.letters.length)} of ${count(Math.max(total(), state.letters.length))} shown` : "");
  setText($("dead-redrive").lastElementChild, `Redrive ${what}`.trim());
  setText($("dead-drop").lastElementChild, `Drop ${what}`.trim());
  for (const id of ["dead-redrive", "dead-drop"]) $(id).disabled = n === 0 && (!isAll || total() === 0);
  $("dead-all").checked = n > 0 && n === state.letters.length;
  $("dead-all").indeterminate = n > 0 && n < state.letters.length;
  setHidden($("dead-hint"), n > 0 || isAll || state.letters.length === 0);
}

async function change(action) {
  const ids = [...state.chosen];
  const selection = ids.length > 0 ? { ids } : { sink: sinkName(), all: true };
  if (!(await action(selection, ids.length || total()))) return;
  state.chosen.clear();
  await read(false);
}

/* Reads the list again if a sink has more or fewer of them than at the last look. */
export function showDead(status) {
  const sinks = (status.sinks ?? []).filter((sink) => sink.dead > 0 || sink.name === sinkName());
  state.counts = new Map((status.sinks ?? []).map((sink) => [sink.name, sink.dead ?? 0]));
  setOptions($("dead-sink"), sinks.map((sink) => sink.name), "all sinks");
  const seen = JSON.stringify([...state.counts]);
  if (seen === state.seen) return;
  state.seen = seen;
  setText($("dead-title-count"), total() > 0 ? counted(total(), "letter") : "");
  if (state.letters.length > 0 || total() > 0) read(false);
  else show();
}

export function chooseDeadSink(name) {
  $("dead-sink").value = name;
  state.chosen.clear();
  read(false);
}

export function prepareDead() {
  $("dead-sink").addEventListener("change", () => chooseDeadSink(sinkName()));
  $("dead-more").addEventListener("click", () => read(true));
  $("dead-redrive").addEventListener("click", () => change(redriveDead));
  $("dead-drop").addEventListener("click", () => change(dropDead));
  $("dead-all").addEventListener("change", (event) => {
    state.chosen = new Set(event.target.checked ? state.letters.map((letter) => letter.id) : []);
    show();
  });
}
