import assert from "node:assert/strict";
import { test } from "node:test";
import { ageOfLook, ageOfStatus, isLive } from "../../src/admin/page/age.mjs";

const status = { now: "2026-11-21T08:00:30Z", looked_at: "2026-11-21T08:00:10Z", look_error: null, source: { up: true } };

test("what the database said is dated while it does not answer, and only then", () => {
  assert.equal(ageOfLook(status), "");
  assert.match(ageOfLook({ ...status, source: { up: false } }), /those of .*:\d\d:10, 20 s ago/);
  assert.match(ageOfLook({ ...status, look_error: "canceled" }), /20 s ago/);
  assert.equal(ageOfLook({ ...status, source: { up: false }, looked_at: null }), "");
});

test("a lost connection dates all figures, if there are any", () => {
  assert.match(ageOfStatus(status, 12.4), /those of .*:\d\d:30, 12 s old/);
  assert.match(ageOfStatus(null, NaN), /cannot be reached/);
});

test("a rate is that of now only with the relay and its database", () => {
  assert.deepEqual([status, { ...status, source: { up: false } }, { ...status, isCut: true }].map(isLive), [true, false, false]);
});
