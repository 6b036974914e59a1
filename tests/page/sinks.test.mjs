import assert from "node:assert/strict";
import { test } from "node:test";
import { inOrderOfTrouble } from "../../src/admin/page/sinks.mjs";

test("the sinks in trouble come first, and the others as they were", () => {
  const sinks = [["audit", "running"], ["bus", "paused"], ["cache", "starting"], ["mail", "down"], ["orders", "stalled"], ["shop", "running"]]
    .map(([name, state]) => ({ name, state }));
  assert.deepEqual(inOrderOfTrouble(sinks).map((sink) => sink.name), ["mail", "orders", "bus", "cache", "audit", "shop"]);
});
