import assert from "node:assert/strict";
import { test } from "node:test";
import { headlineOf, reasonOf } from "../../src/admin/page/portal.mjs";
import { secretWords } from "../../src/admin/page/portal_change.mjs";
import { wordsOf } from "../../src/admin/page/portal_lists.mjs";

const now = "2026-11-21T08:00:00Z";
const receiver = { state: "active", state_since: "2026-11-21T06:00:00Z", failing_since: null, is_held: false, retrying: 0, dead: 0, last_error: "500 no", is_paused_by_owner: false };

test("the customer reads how it is, the worst first", () => {
  assert.deepEqual(headlineOf(receiver, now), ["ok", "Deliveries work"]);
  assert.deepEqual(headlineOf({ ...receiver, retrying: 1 }, now), ["warning", "1 event is tried again"]);
  assert.deepEqual(headlineOf({ ...receiver, is_held: true, retrying: 1 }, now), ["warning", "The sender holds deliveries back"]);
  assert.deepEqual(headlineOf({ ...receiver, failing_since: "2026-11-21T07:56:00Z", is_held: true }, now), ["error", "Deliveries fail for 4 min"]);
  assert.deepEqual(headlineOf({ ...receiver, state: "paused", failing_since: now }, now), ["warning", "Deliveries are paused for 2 h"]);
  assert.deepEqual(headlineOf({ ...receiver, state: "disabled" }, now), ["error", "Deliveries have been stopped for 2 h"]);
});

test("and why, but not what the operator wrote", () => {
  assert.equal(reasonOf(receiver), "");
  assert.equal(reasonOf({ ...receiver, dead: 2 }), "2 events were given up.");
  assert.equal(reasonOf({ ...receiver, failing_since: now }), "500 no");
  assert.equal(reasonOf({ ...receiver, state: "paused" }), "The sender of the events has paused them.");
  assert.equal(reasonOf({ ...receiver, state: "paused", is_paused_by_owner: true }), "");
  assert.match(reasonOf({ ...receiver, state: "disabled" }), /wants no more\. 500 no$/);
});

test("an event that is retried says when", () => {
  assert.equal(wordsOf({ state: "retrying", error: "500 no", next_at: "2026-11-21T08:00:30Z" }, now), "500 no; next try in 30 s");
  assert.equal(wordsOf({ state: "retrying", error: null, next_at: "2026-11-21T07:00:30Z" }, now), "next try now");
  assert.equal(wordsOf({ state: "delivered", error: null, next_at: null }, now), "");
});

test("a new secret is told of as its scheme has it", () => {
  assert.match(secretWords("standard"), /both secrets for 24 hours/);
  assert.match(secretWords("github"), /the new secret alone/);
});
