import assert from "node:assert/strict";
import { test } from "node:test";
import { resultWords, untilWords } from "../../src/admin/page/schedules.mjs";

const now = "2026-11-28T10:00:00.000Z";

test("a tick is ahead, or late", () => {
  assert.equal(untilWords("2026-11-28T10:00:05.000Z", now), "in 5.0 s");
  assert.equal(untilWords("2026-11-28T09:59:57.000Z", now), "3.0 s late");
  assert.equal(untilWords(null, now), "");
});

test("the result is that of the last run that has ended", () => {
  const run = (state, at) => ({ state, at: `2026-11-28T${at}.000Z` });
  assert.equal(resultWords({ runs: [] }, now), "none yet");
  assert.equal(resultWords({ runs: [run("open", "09:59:59")] }, now), "under way");
  assert.equal(resultWords({ runs: [run("open", "09:59:59"), run("dead", "09:59:55"), run("delivered", "09:59:00")] }, now), "dead 5 s ago");
});
