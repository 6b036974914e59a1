import assert from "node:assert/strict";
import { test } from "node:test";
import { headline } from "../../src/admin/page/problems.mjs";

test("the headline names what is alone, and counts what needs a hand", () => {
  const down = { id: "down:mail", level: "error", title: "mail is down" };
  const note = { id: "retrying:mail", level: "note", title: "2 deliveries of mail failed" };
  assert.equal(headline([]), "All well");
  assert.equal(headline([note]), "All well");
  assert.equal(headline([down, note]), "One thing needs a look: mail is down, and 1 note");
  assert.equal(headline([down, { ...down, level: "warning" }]), "2 things need a look");
  assert.equal(headline([down, { ...down, level: "warning" }, note, note]), "2 things need a look, and 2 notes");
  assert.equal(headline([{ id: "standby", level: "note" }]), "All well, standing by");
});
