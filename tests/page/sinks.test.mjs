import assert from "node:assert/strict";
import { test } from "node:test";
import { inOrderOfTrouble } from "../../src/admin/page/sinks.mjs";

test("the sinks in trouble come first, then those that need a look, then by name", () => {
  const sinks = [["shop", "running"], ["cache", "starting"], ["mail", "down"], ["bus", "paused"], ["orders", "stalled"], ["audit", "running"], ["zoo", "running"]]
    .map(([name, state]) => ({ name, state }));
  const attention = [{ sink: "zoo", level: "warning" }, { sink: "shop", level: "note" }, { sink: null, level: "error" }, { sink: "orders", level: "error" }];
  assert.deepEqual(inOrderOfTrouble(sinks).map((sink) => sink.name), ["mail", "orders", "bus", "cache", "audit", "shop", "zoo"]);
  assert.deepEqual(inOrderOfTrouble(sinks, attention).map((sink) => sink.name), ["orders", "mail", "bus", "cache", "zoo", "audit", "shop"]);
});
