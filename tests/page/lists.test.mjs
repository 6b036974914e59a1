import assert from "node:assert/strict";
import { test } from "node:test";
import { relayState } from "../../src/admin/page/lists.mjs";

test("a drained relay drains until it has no shards", () => {
  const owning = { bus: { shards: 4, owns: 1 } }, idle = { bus: { shards: 4, owns: 0 } };
  assert.equal(relayState({ sinks: idle }), "active");
  assert.equal(relayState({ is_drained: true, sinks: owning }), "draining");
  assert.equal(relayState({ is_drained: true, sinks: idle }), "drained");
  assert.equal(relayState({ is_drained: true, is_leaving: true, sinks: owning }), "leaving");
});
