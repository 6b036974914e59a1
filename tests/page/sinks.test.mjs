import assert from "node:assert/strict";
import { test } from "node:test";
import { inOrderOfTrouble, shardsWords } from "../../src/admin/page/sinks.mjs";

test("the sinks in trouble come first, then those that need a look, then by name", () => {
  const sinks = [["shop", "running"], ["cache", "starting"], ["mail", "down"], ["bus", "paused"], ["orders", "stalled"], ["audit", "running"], ["zoo", "running"]]
    .map(([name, state]) => ({ name, state }));
  const attention = [{ sink: "zoo", level: "warning" }, { sink: "shop", level: "note" }, { sink: null, level: "error" }, { sink: "orders", level: "error" }];
  assert.deepEqual(inOrderOfTrouble(sinks).map((sink) => sink.name), ["mail", "orders", "bus", "cache", "audit", "shop", "zoo"]);
  assert.deepEqual(inOrderOfTrouble(sinks, attention).map((sink) => sink.name), ["orders", "mail", "bus", "cache", "zoo", "audit", "shop"]);
});

test("a sink with shards says who has which", () => {
  const owners = [{ relay: "a", pid: 7, shards: [0, 2, 3, 4] }, { relay: null, pid: 8, shards: [6, 7] }];
  assert.equal(shardsWords({ shards: { total: 8, owners, unowned: [1, 5] } }), "8 shards; a: 0, 2 to 4; process 8: 6, 7; no relay: 1, 5");
  assert.equal(shardsWords({ shards: { total: 1, wanted: 2, owners, unowned: [] } }), "");
  assert.equal(shardsWords({ shards: null }), "");
});
