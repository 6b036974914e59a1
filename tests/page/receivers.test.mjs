import assert from "node:assert/strict";
import { test } from "node:test";
import { answerWords } from "../../src/admin/page/format.mjs";
import { receiverState } from "../../src/admin/page/looks.mjs";
import { receiverWords } from "../../src/admin/page/receiver.mjs";
import { lastOffset, range, receiversWords } from "../../src/admin/page/receivers.mjs";
import { parsePlace } from "../../src/admin/page/sheet.mjs";
import { deliveryWords, eventId, inOrderOfNeed } from "../../src/admin/page/trace.mjs";

const now = "2026-11-21T08:00:00Z";

test("an active receiver fails once that is noted; one that stands still does not", () => {
  assert.deepEqual([["active", null], ["active", now], ["paused", now], ["disabled", now]].map(([state, failing_since]) => receiverState({ state, failing_since })),
    ["active", "failing", "paused", "disabled"]);
});

test("a receiver says since when it is as it is, and why", () => {
  const receiver = { state: "active", state_since: "2026-11-21T06:00:00Z", failing_since: null, last_error: "500 no", state_reason: null };
  assert.match(receiverWords(receiver, now), /^for 2 h, since [\d:]+$/);
  assert.match(receiverWords({ ...receiver, failing_since: "2026-11-21T07:56:00Z" }, now), /^for 4 min, since [\d:]+: 500 no$/);
  assert.match(receiverWords({ ...receiver, state: "paused", state_reason: "their deploy" }, now), /: their deploy$/);
});

test("a sink counts its receivers, and those in trouble", () => {
  assert.equal(receiversWords({ receivers: null }), "");
  assert.equal(receiversWords({ receivers: { total: 1, failing: 0, disabled: 0, paused: 0 } }), "1 receiver");
  assert.equal(receiversWords({ receivers: { total: 10000, failing: 2, disabled: 0, paused: 1 } }), "10,000 receivers: 2 failing, 1 paused");
});

test("a page of a list says which of how many it is", () => {
  assert.equal(range(0, 50, 10000), "1 to 50 of 10,000");
  assert.equal(range(9950, 50, 10000), "9,951 to 10,000 of 10,000");
  assert.equal(range(0, 3, 3), "3");
  assert.equal(range(0, 0, 0), "none");
  assert.deepEqual([0, 1, 50, 51, 10000].map(lastOffset), [0, 0, 0, 50, 9950]);
});

test("an address names a receiver or an event, or nothing", () => {
  assert.deepEqual(parsePlace("#/receiver/webhooks/a%2Fb"), { kind: "receiver", parts: ["webhooks", "a/b"] });
  assert.deepEqual(parsePlace("#/event/17"), { kind: "event", parts: ["17"] });
  for (const other of ["", "#", "#receivers", "#/event/", "#/event/1/2", "#/receiver/x", "#/event/%", "#/constructor/x"]) assert.equal(parsePlace(other), null, other);
});

test("an event is looked for by its number or its id", () => {
  assert.equal(eventId(" #17 "), "17");
  assert.equal(eventId("1E37750B-9CD0-47A0-AF10-C56DDDDF0004\n"), "1e37750b-9cd0-47a0-af10-c56ddddf0004");
  for (const other of ["", "seventeen", "1e37750b", "-1"]) assert.equal(eventId(other), null);
});

test("of an event's deliveries come those that need a look first, and all are counted", () => {
  const deliveries = [["b", "delivered"], ["a", "delivered"], ["c", "not_taken"], ["d", "retrying"], ["e", "dead"]].map(([receiver, state]) => ({ sink: "s", receiver, state }));
  assert.deepEqual(inOrderOfNeed(deliveries).map(({ receiver }) => receiver), ["e", "d", "a", "b", "c"]);
  assert.equal(deliveryWords({ not_taken: 1, delivered: 9990, dead: 1, retrying: 1 }), "1 dead, 1 retrying, 9,990 delivered, 1 not taken");
  assert.equal(deliveryWords({}), "No sink is known.");
});

test("an answer begins with its status, once", () => {
  assert.deepEqual([{ status: 200, answer: "200 OK" }, { status: 500, answer: "locked" }, { status: 204 }, { answer: "refused" }, {}].map(answerWords),
    ["200 OK", "500 locked", "204", "refused", ""]);
});
