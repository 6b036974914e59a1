import assert from "node:assert/strict";
import { test } from "node:test";
import { headline, whatNeedsAttention } from "../../src/admin/page/attention.mjs";

const now = "2026-11-21T08:10:00Z";
const sink = (more) => ({ name: "billing", state: "running", state_since: "2026-11-21T08:00:00Z", dead: 0, blocked: 0,
  backlog: { events: 0, is_exact: true, oldest_age: 0 }, rate: 0, ...more });
const document = (more) => ({ now, ready: true, config: { file: "/etc/p.yaml", last_reload_ok: true }, source: { up: true, notify_queue_usage: 0, oldest_xmin: null },
  sinks: [sink()], blocked_keys: [], orphans: [], ...more });
const problems = (more) => whatNeedsAttention(document(more));

test("a healthy relay, and one that knows nothing yet, need nobody", () => {
  assert.deepEqual(problems({}), []);
  assert.equal(headline(document({}), []), "All well");
  assert.deepEqual(whatNeedsAttention({ now, source: null, sinks: [{ name: "a", state: "starting", backlog: null }], blocked_keys: null, orphans: null, config: null }), []);
});

test("each state that delivers nothing is told with its reason, how long, and what waits", () => {
  const backlog = { events: 1500, is_exact: true, oldest_age: 600 };
  for (const [state, level] of [["down", "bad"], ["refused", "bad"], ["stalled", "bad"], ["unowned", "bad"], ["paused", "warn"]]) {
    const [problem, ...more] = problems({ sinks: [sink({ state, state_reason: "Connection refused", backlog })] });
    assert.equal(more.length, 0, state);
    assert.equal(problem.level, level, state);
    assert.equal(problem.lasts, 600);
    assert.match(problem.why, /Connection refused/);
    assert.match(problem.why, /1,500 events wait, the oldest for 10 min/);
    assert.ok(problem.command || problem.action, state);
  }
});

test("a sink that stands still by a pause can be resumed with a button", () => {
  for (const state of ["paused", "refused"])
    assert.deepEqual(problems({ sinks: [sink({ state })] })[0].action, { kind: "resume", sink: "billing" });
});

test("dead letters, failing receivers and an orphan each name the command that helps", () => {
  const found = problems({ sinks: [sink({ dead: 2, endpoints: { total: 9, failing: 1, disabled: 2 } })], orphans: [{ sink: "old one", behind: 7 }] });
  assert.deepEqual(found.map((problem) => problem.id), ["dead:billing", "endpoints:billing", "orphan:old one"]);
  assert.equal(found[0].title, "2 dead letters of billing");
  assert.equal(found[1].title, "Receivers of billing: 1 failing, 2 disabled");
  assert.equal(found[2].command, "pgcourier cursor drop 'old one' -c /etc/p.yaml");
});

test("of blocked keys the one that most wait for is named, once for each sink", () => {
  const key = (more) => ({ sink: "billing", lane: 0, key: "17", waiting: 2, behind_id: 4, error: "500", ...more });
  const one = problems({ blocked_keys: [key()] });
  assert.equal(one[0].title, "Key 17 of billing is blocked");
  assert.equal(one[0].command, "pgcourier parked retry --sink billing 4 -c /etc/p.yaml");
  const two = problems({ blocked_keys: [key(), key({ key: "18", waiting: 9, behind_id: 5 })] });
  assert.equal(two.length, 1);
  assert.match(two[0].why, /^9 events of key 18 wait behind event 5/);
});

test("a snapshot is told from five minutes on, with the process that holds it", () => {
  const held = (age) => problems({ source: { up: true, oldest_xmin: { age, pid: 8812, what: "idle in transaction" } } });
  assert.deepEqual(held(299), []);
  assert.match(held(300)[0].title, /8812/);
  assert.match(held(300)[0].command, /pg_terminate_backend\(8812\)/);
});

test("the notification queue is told when it is half full", () => {
  assert.deepEqual([0.49, 0.5].map((notify_queue_usage) => problems({ source: { up: true, notify_queue_usage } })[0]?.level), [undefined, "bad"]);
});

test("what is worst comes first, and the headline names it if it is alone", () => {
  const found = problems({ sinks: [sink({ dead: 1 }), sink({ name: "mail", state: "down", state_reason: "refused" })], source: { up: false, error: "no route" } });
  assert.deepEqual(found.map((problem) => problem.id), ["source", "down:mail", "dead:billing"]);
  assert.equal(headline({}, found), "3 things need a look");
  assert.equal(headline({}, found.slice(1, 2)), "One thing needs a look: mail is down");
});

test("a standby is well; being behind is not, and says how much work is left", () => {
  const standby = document({ sinks: [sink({ state: "standby", owner: { pid: 7, client: "10.0.0.4" } })] });
  assert.equal(headline(standby, whatNeedsAttention(standby)), "All well, standing by");
  assert.match(whatNeedsAttention(standby)[0].why, /process 7 .* from 10\.0\.0\.4/);
  const late = problems({ sinks: [sink({ rate: 100, backlog: { events: 24500, is_exact: true, oldest_age: 300 } })] });
  assert.equal(late[0].level, "warn");
  assert.match(late[0].remedy, /4 min 5 s/);
});

test("not being ready is told in the relay's words unless it is explained already", () => {
  assert.equal(problems({ ready: false, not_ready: ["the schema is too old"] })[0].why, "the schema is too old.");
  assert.equal(problems({ ready: false, not_ready: ["no connection"], source: { up: false, error: "no" } }).length, 1);
});

test("a configuration that was not taken can be loaded again", () => {
  const [problem] = problems({ config: { last_reload_ok: false, last_reload_error: "line 3: unknown key" } });
  assert.deepEqual(problem.action, { kind: "reload" });
  assert.match(problem.why, /line 3/);
});
