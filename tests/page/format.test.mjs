import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "../../src/admin/page/format.mjs";

test("what is not known is a dash, whatever it would be", () => {
  for (const of of [format.count, format.rate, format.duration, format.brief, format.ago, format.bytes, format.percent])
    for (const nothing of [null, undefined, NaN]) assert.equal(of(nothing), "–");
});

test("counts are grouped, and an estimate says that it is one", () => {
  assert.equal(format.count(0), "0");
  assert.equal(format.count(12345), "12,345");
  assert.equal(format.count(12345, false), "≈\u00a012,300");
  assert.equal(format.count(123456789), "123 M");
  assert.equal(format.counted(1, "event"), "1 event");
  assert.equal(format.counted(2, "event"), "2 events");
});

test("durations have the unit that fits, from microseconds to days", () => {
  const words = { 0: "0 s", 0.00042: "0.4 ms", 0.0041: "4.1 ms", 0.412: "412 ms", 0.9996: "1.0 s", 3.24: "3.2 s", 41: "41 s",
    59.7: "1 min", 245: "4 min 5 s", 3599.6: "1 h", 7800: "2 h 10 min", 86400: "1 d", 273600: "3 d 4 h" };
  for (const [seconds, text] of Object.entries(words)) assert.equal(format.duration(Number(seconds)), text);
  assert.equal(format.brief(245), "4 min");
  assert.equal(format.brief(59.9), "59 s");
  assert.equal(format.ago(0.3), "just now");
  assert.equal(format.ago(7800), "2 h ago");
});

test("rates and sizes keep their width", () => {
  assert.deepEqual([0, 0.02, 7.44, 12.3, 160000, 2.5e6].map(format.rate), ["0/s", "< 0.1/s", "7.4/s", "12/s", "160,000/s", "2.5 M/s"]);
  assert.deepEqual([0, 1023, 1024, 5 * 2 ** 30].map(format.bytes), ["0 B", "1023 B", "1.0 KiB", "5.0 GiB"]);
  assert.deepEqual([0, 0.004, 0.31].map(format.percent), ["0 %", "< 1 %", "31 %"]);
});

test("times differ as the relay's clock says, never by less than nothing", () => {
  assert.equal(format.secondsBetween("2026-11-21T08:00:00.250000Z", "2026-11-21T08:00:01Z"), 0.75);
  assert.equal(format.secondsBetween("2026-11-21T08:00:01Z", "2026-11-21T08:00:00Z"), 0);
  assert.equal(format.secondsBetween(null, "2026-11-21T08:00:00Z"), null);
});

test("the top of a chart is short and exact", () => {
  assert.deepEqual([0.0005, 0.05, 5, 100, 2000].map(format.axis), ["0.5 ms", "50 ms", "5.0 s", "100 s", "2,000 s"]);
});
