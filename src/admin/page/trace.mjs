/* What became of one event: with each sink, and with each receiver. */
import { relayNow } from "./age.mjs";
import { get, path } from "./api.mjs";
import { $, list, make, setAttribute, setHidden, setText } from "./dom.mjs";
import { ago, clock, count, duration, secondsBetween, unknown } from "./format.mjs";
import { deliveryLook } from "./looks.mjs";
import { cells, setCells, setLink, setState } from "./rows.mjs";
import { eventHref, receiverHref } from "./sheet.mjs";

const STEP = 50; /* an event may go to thousands of receivers */
const order = ["dead", "retrying", "waiting", "cancelled", "delivered", "not_taken"];

let most = STEP;
let last = null; /* the answer, and of which event it is */

const place = (delivery) => (delivery.receiver ? `${delivery.sink}/${delivery.receiver}` : delivery.sink);

/* What needs a look first, then by name. Pure. */
export function inOrderOfNeed(deliveries) {
  return [...deliveries].sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state) || (place(a) < place(b) ? -1 : 1));
}

/* "2 dead, 8 retrying, 9,990 delivered": of all, also those that are not in the answer. Pure. */
export function deliveryWords(counts) {
  const inOrder = order.map((state) => [counts[state] ?? 0, state.replace("_", " ")]);
  return inOrder.filter(([n]) => n > 0).map(([n, state]) => `${count(n)} ${state}`).join(", ") || "No sink is known.";
}

function updateRow(row, delivery, now) {
  const due = secondsBetween(now, delivery.next_at);
  const when = delivery.at ? clock(delivery.at, now) : "";
  const next = delivery.state === "retrying" && due !== null ? `next try ${due > 0 ? `in ${duration(Math.ceil(due))}` : "now"}` : "";
  setLink(row.children[0], place(delivery), delivery.receiver ? receiverHref(delivery.sink, delivery.receiver) : null);
  setState(row.children[1], delivery.state, deliveryLook(delivery.state));
  setCells(row, null, null, when, delivery.attempts > 0 ? count(delivery.attempts) : "", delivery.took ? duration(delivery.took) : "",
    [delivery.status, next, delivery.reason].filter(Boolean).join("; "));
}

function facts(event, now) {
  return [["Event", event.event_id, "whole"], ["Number", event.id === undefined ? null : String(event.id)], ["Topic", event.topic], ["Key", event.key], ["Type", event.type],
    ["Published", event.created_at ? `${clock(event.created_at, now)}, ${ago(secondsBetween(event.created_at, now))}` : null, "whole"]];
}

function show(trace, [id]) {
  const now = relayNow();
  const deliveries = inOrderOfNeed(trace.deliveries ?? []);
  if (last?.id !== id) most = STEP;
  last = { trace, id };
  setText($("trace-words"), deliveryWords(trace.counts));
  list($("trace-facts"), facts(trace.event ?? {}, now), (fact) => fact[0],
    (fact) => make("div", { class: fact[2] ?? null }, make("dt", {}, fact[0]), make("dd")),
    (node, [, text]) => setText(node.lastElementChild, text ?? unknown));
  list($("trace-rows"), deliveries.slice(0, most), place,
    () => cells("sink", "state", "time", "attempts", "took", "reason"), (row, delivery) => updateRow(row, delivery, now));
  setHidden($("trace-table"), deliveries.length === 0);
  setHidden($("trace-more"), deliveries.length <= most);
  setText($("trace-more"), `Show ${count(Math.min(STEP, deliveries.length - most))} more of ${count(deliveries.length)}`);
}

export const traceView = {
  panel: "trace",
  title: ([id]) => `Event ${id}`,
  read: (parts, signal) => get(`api/trace/${path(...parts)}?limit=1000`, signal),
  show,
  isFinal: ({ counts }) => !counts.waiting && !counts.retrying,
};

/* A number or a uuid, as people paste them. Pure. */
export function eventId(text) {
  const id = text.trim().replace(/^#/, "").toLowerCase();
  return /^(\d{1,19}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$/.test(id) ? id : null;
}

export function prepareTrace() {
  const field = $("find-event");
  $("find").addEventListener("submit", (event) => {
    event.preventDefault();
    const id = eventId(field.value);
    field.setCustomValidity(id === null ? "An event's number, or its id: 8-4-4-4-12 hexadecimal digits" : "");
    if (field.reportValidity()) location.hash = eventHref(id);
  });
  field.addEventListener("input", () => field.setCustomValidity(""));
  $("trace-more").addEventListener("click", () => {
    most += STEP;
    show(last.trace, [last.id]);
  });
}
