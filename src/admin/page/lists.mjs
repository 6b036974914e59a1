/* Blocked keys, recent deliveries, and the box about the source. */
import { $, list, make, setAttribute, setHidden, setOptions, setText } from "./dom.mjs";
import { bytes, clock, count, duration, percent, secondsBetween, ago, unknown } from "./format.mjs";
import { makeHold } from "./hold.mjs";
import { deliveryLook } from "./looks.mjs";
import { cells, setCells, setLink, setState } from "./rows.mjs";
import { eventHref, receiverHref } from "./sheet.mjs";

export function showBlockedKeys(status) {
  const keys = status.blocked_keys ?? [];
  setHidden($("blocked"), keys.length === 0);
  list($("blocked-rows"), keys, (key) => `${key.sink}\n${key.lane}\n${key.key}`,
    () => cells("sink", "key", "waiting", "behind", "since", "next try", "error"),
    (row, key) => {
      const due = secondsBetween(status.now, key.next_retry_at);
      setCells(row, key.sink, key.key, count(key.waiting), key.behind_id === null ? "under way" : `event ${key.behind_id}`, ago(secondsBetween(key.since, status.now)),
        due === null ? unknown : due > 0 ? `in ${duration(Math.ceil(due))}` : "now", key.error ?? "");
    });
}

const shardsOf = (relay) => Object.entries(relay.sinks ?? {}).filter(([, sink]) => sink.owns > 0)
  .map(([name, sink]) => `${name} ${sink.owns}/${sink.shards}`).join(", ");

/* As `pgcourier relay list` has it. */
export function relayState(relay) {
  if (relay.is_leaving) return "leaving";
  if (!relay.is_drained) return "active";
  return shardsOf(relay) ? "draining" : "drained";
}

/* One that has all the shards needs no table. */
export function showRelays(status) {
  const relays = status.relays ?? [];
  setHidden($("relays"), relays.length < 2 && relays.every((relay) => relayState(relay) === "active"));
  list($("relays-rows"), relays, (relay) => relay.name,
    () => cells("relay", "state", "host", "version", "since", "weight", "shards"),
    (row, relay) => {
      const state = relayState(relay);
      setCells(row, relay.name, state, relay.host, relay.version, ago(secondsBetween(relay.since, status.now)), count(relay.weight), shardsOf(relay) || "none");
      setAttribute(row.children[1], "data-tone", state === "active" ? "ok" : "warn");
    });
}

/* Tables of applications whose rows become events. */
export function showTaps(status) {
  const { states = {}, first: taps = [] } = status.taps ?? {};
  const all = Object.values(states).reduce((sum, n) => sum + n, 0);
  setHidden($("taps"), taps.length === 0);
  setText($("taps-note"), (all > taps.length ? `${count(taps.length)} of ${count(all)}, those in trouble first` : "tables whose rows become events")
    + (status.marks?.oldest_age > 0 ? `; the oldest row to be marked is ${duration(status.marks.oldest_age)} late` : ""));
  list($("taps-rows"), taps, (tap) => tap.id,
    () => cells("tap", "state", "table", "layout", "done", "unmarked", "oldest"),
    (row, tap) => {
      const { unmarked } = tap;
      setCells(row, tap.name, tap.state.replaceAll("_", " "), tap.table, tap.layout ?? tap.kind, tap.done_when === "taken" ? "taken" : tap.done,
        unmarked ? count(unmarked.events) + (unmarked.is_exact ? "" : "+") : "", unmarked?.events > 0 ? duration(unmarked.oldest_age) : "");
      setAttribute(row.children[1], "data-tone", tap.state === "ok" ? "ok" : "bad");
      setAttribute(row.children[1], "title", tap.detail);
    });
}

let hold = { isOn: false };
let lastStatus = null;

/* As the log calls it. */
const receiver = (delivery) => delivery.receiver ? `${delivery.sink}/${delivery.receiver}` : delivery.sink;

function updateRecentRow(row, delivery) {
  setState(row.children[1], delivery.outcome, deliveryLook(delivery.outcome));
  setLink(row.children[2], receiver(delivery), delivery.receiver ? receiverHref(delivery.sink, delivery.receiver) : null);
  setLink(row.children[3], String(delivery.id), eventHref(delivery.id));
  setCells(row, clock(delivery.at, lastStatus.now), null, null, null, delivery.topic ?? "", delivery.key ?? "",
    count(delivery.attempt), duration(delivery.latency), delivery.words ?? "");
  setAttribute(row, "title", `event ${delivery.id}, ${delivery.event_id}${delivery.source ? `, from ${delivery.source}` : ""}`);
}

export function showRecent(status) {
  const chosen = $("recent-sink").value;
  const all = status.recent ?? [];
  lastStatus = status;
  setOptions($("recent-sink"), (status.sinks ?? []).map((sink) => sink.name), "all sinks");
  if (hold.isOn) return;
  const shown = all.filter((delivery) => !chosen || delivery.sink === chosen);
  list($("recent-rows"), shown, (delivery) => `${receiver(delivery)}\n${delivery.id}\n${delivery.attempt}\n${delivery.at}`,
    () => cells("time", "outcome", "sink", "event", "topic", "key", "attempt", "latency", "error"), updateRecentRow);
  setHidden($("recent-none"), shown.length > 0);
}

export function prepareRecent() {
  hold = makeHold($("recent-box"), (isOn) => {
    setText($("recent-note"), isOn ? "held while you read" : "newest first");
    if (!isOn && lastStatus) showRecent(lastStatus);
  });
  $("recent-sink").addEventListener("change", () => lastStatus && showRecent(lastStatus));
}

function sourceFacts(status) {
  const source = status.source ?? {};
  const held = source.oldest_xmin;
  const config = status.config ?? {};
  const server = source.up === false ? "not reached" : source.server_version ?? unknown;
  const loaded = config.loaded_at ? `read ${ago(secondsBetween(config.loaded_at, status.now))}` : unknown;
  const isRefused = config.last_reload_ok === false;
  const toneOf = (id) => ((status.attention ?? []).some((problem) => problem.id === id) ? "warn" : "");
  return [
    ["Database", source.database ? `${source.database}, ${source.server}` : unknown],
    ["PostgreSQL", source.schema ? `${server}, schema ${source.schema}` : String(server), source.up === false ? "bad" : ""],
    ["Reconnects", count(source.reconnects)],
    ["Notification queue", `${percent(source.notify_queue_usage)} used`, toneOf("queue")],
    ["Oldest snapshot", held ? `${duration(held.age)}${held.pid ? `, process ${held.pid}` : ""}` : "none is held", toneOf("xmin")],
    ["Outbox", `${bytes(source.outbox_bytes)}${source.outbox_partitions ? ` in ${count(source.outbox_partitions)} partitions` : ""}`],
    ["Dead rows", count(source.outbox_dead_tuples)],
    ["Configuration", `${config.file ?? unknown}, ${isRefused ? "reload failed" : loaded}`, toneOf("config")],
    ["Relay", `${status.version ?? unknown}, up ${duration(secondsBetween(status.started_at, status.now))}`],
  ];
}

export function showSource(status) {
  list($("source-facts"), sourceFacts(status), (fact) => fact[0],
    (fact) => make("div", {}, make("dt", {}, fact[0]), make("dd")),
    (node, [, text, tone = "", title = null]) => {
      setText(node.lastElementChild, text);
      setAttribute(node, "data-tone", tone);
      setAttribute(node, "title", title ?? null);
    });
}
