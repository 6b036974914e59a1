import assert from "node:assert/strict";
import { test } from "node:test";
import { areaPath, indexAt, linePath, niceMaximum } from "../../src/admin/page/chart.mjs";
import { sinceStart } from "../../src/admin/page/sinks.mjs";
import { splitEvents } from "../../src/admin/page/stream.mjs";

test("the top of a chart is round and never below a value", () => {
  assert.deepEqual([[0], [null], [0.0007], [1], [1.01], [3, 47, null], [101]].map((values) => niceMaximum(values)), [1, 1, 0.001, 1, 2, 50, 200]);
  assert.equal(niceMaximum([3], 10), 10);
});

test("a line goes from the left to the right edge, the ground at the bottom", () => {
  assert.equal(linePath([0, 5, 10], 10), "M0,40L60,20L120,0");
});

test("what is not known leaves a gap, and a value alone can be seen", () => {
  assert.equal(linePath([1, null, 1, 1, null], 1), "M0,0h0.5M60,0L90,0");
  assert.equal(areaPath([1, null, 1, 1, null], 1), "M60,40L60,0L90,0L90,40Z");
  assert.equal(linePath([null, null], 1), "");
});

test("before its start a relay delivered nothing that it knows of: a gap, not zeros", () => {
  const series = { step: 5, rate: [0, 0, 0, 7] };
  assert.deepEqual(sinceStart(series, { started_at: "2026-11-21T08:00:00Z", now: "2026-11-21T08:00:06Z" }).rate, [null, null, 0, 7]);
  assert.deepEqual(sinceStart(series, { started_at: "2026-11-20T08:00:00Z", now: "2026-11-21T08:00:06Z" }).rate, [0, 0, 0, 7]);
});

test("the pointer finds the value it is over", () => {
  assert.deepEqual([-0.1, 0, 0.49, 0.51, 1, 1.2].map((fraction) => indexAt(fraction, 3)), [0, 0, 1, 1, 2, 2]);
});

test("a stream is cut at whole events only, wherever it was broken", () => {
  const first = splitEvents(": hello\n\nevent: status\ndata: {\"a\":\ndata: 1}\n\nevent: deliv");
  assert.deepEqual(first.events, [{ event: "status", data: '{"a":\n1}' }]);
  const second = splitEvents(`${first.rest}ery\r\ndata:x\r\n\r\n`);
  assert.deepEqual(second, { events: [{ event: "delivery", data: "x" }], rest: "" });
});
