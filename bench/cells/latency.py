"""From COMMIT to the acknowledgement of Redis, at four paces, beside the least that could be done.

The floor is a loop of LISTEN, SELECT and XADD (bench/baselines/floor.c) that keeps no account of what
it delivered. Both get their events from the same publisher and are timed by the same instrument
(bench/pace.py). Once with nothing else going on; once while a relay works off a backlog to a webhook
that answers at once: the relay that is measured, at another of its sinks; beside the floor, another.
"""

import subprocess
from contextlib import contextmanager, nullcontext

from load import empty, load
from pace import OUR_INSERT, Acks, await_acks, entries, percentiles, publish
from rig import await_true, cpu_s, figure, progress

# Events a second -> the publisher's connections, and seconds of a turn.
PACES = {1: (1, 3), 100: (1, 3), 1000: (2, 1.5), 5000: (16, 1.5)}
WARM_UP = (200, 0.25)  # the first events open connections and fill caches
DRAIN_PER_S = 250_000  # more than the webhook takes, so that its backlog outlasts the measurement
OURS, FLOOR = "pgcourier", "floor"
IDLE, DRAINING = "idle", "draining"
STREAM = "events:pace"
FLOOR_INSERT = ("INSERT INTO baseline.floor (topic, key, type, payload)"
                " VALUES ('pace', 'customer-' || $1::bigint % 1000, 'order', $2)")


def drop_floor(rig):
    rig.sql("DROP TABLE IF EXISTS baseline.floor")
    rig.sql("DROP FUNCTION IF EXISTS baseline.ring()")


class Floor:
    """The running loop; use it with `with`."""

    def __init__(self, rig, acks):
        drop_floor(rig)
        with open(f"{rig.folder}/bench/baselines/floor.sql", encoding="utf-8") as file:
            rig.sql(file.read())
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", f"{rig.folder}/floor", rig.dsn("postgres"),
             "baseline.floor", "floor", f"{rig.folder}/redis.sock", f"{rig.folder}/floor.out"],
            stdout=subprocess.PIPE, env=acks.environment)

    def __enter__(self):
        if self.process.stdout.readline() != b"ready\n":
            raise RuntimeError("the floor loop did not start")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()

    def is_alive(self):
        return self.process.poll() is None


def drain_sink(receiver):
    return ('{ name: drain, topics: ["orders.*"], start: beginning,'
            ' http: { url: "http://127.0.0.1:%d/1" } }' % receiver.port)


@contextmanager
def started(rig, who, receiver, acks):
    """The program to be measured, and a drain if there is a receiver for it."""
    ours = [rig.redis_sink("pace", topics="pace")] if who == OURS else []
    sinks = ours + ([drain_sink(receiver)] if receiver else [])
    environment = acks.environment if who == OURS else None
    with rig.relay("latency", sinks, environment=environment) if sinks else nullcontext() as relay:
        if receiver:
            await_true(lambda: relay.is_alive() and receiver.count() > 0, "drain")
        with Floor(rig, acks) if who == FLOOR else nullcontext(relay) as program:
            yield program


def measure(rig, who, receiver, longer):
    """pace -> what each event took: [(from before COMMIT, from its return)] in milliseconds."""
    rig.forget()
    acks = Acks(rig, who)
    user, insert = ("app", OUR_INSERT) if who == OURS else ("postgres", FLOOR_INSERT)
    numbers, committed, first, cpu = {}, {}, 0, {}
    with started(rig, who, receiver, acks) as program:
        pids = [program.pid, *rig.backends("latency")] if who == OURS else []
        for pace, (n_connections, seconds) in [("warm up", (1, WARM_UP[1])), *PACES.items()]:
            per_second = WARM_UP[0] if pace == "warm up" else pace
            before_s = [cpu_s(pid) for pid in pids]
            of_pace = publish(rig, user, insert, per_second, seconds * longer, n_connections, first)
            first += int(per_second * seconds * longer)
            committed.update(of_pace)
            numbers[pace] = list(of_pace)
            await_acks(program, acks, len(committed), may_lose=who == FLOOR)
            cpu[pace] = [(cpu_s(pid) - before) * 1e6 / len(of_pace)
                         for pid, before in zip(pids, before_s)]
        if receiver and receiver.count() >= drain_size(longer):
            raise RuntimeError("the drain ended before the measurement did")
    times_us = acks.times_us()
    acks.close()
    arrived_us = {}
    for entry_id, number in entries(rig, STREAM):
        arrived_us.setdefault(number, times_us[entry_id])
    return {pace: {
        "took": [((arrived_us[n] - committed[n][0]) / 1000, (arrived_us[n] - committed[n][1]) / 1000)
                 for n in numbers[pace] if n in arrived_us],
        "relay_us": sum(cpu[pace][:1]), "backends_us": sum(cpu[pace][1:]),
        "lost": sum(n not in arrived_us for n in numbers[pace]),
        "kept": len(numbers[pace]) * 1e6 / max(1, committed[numbers[pace][-1]][1]
                                               - committed[numbers[pace][0]][0])}
            for pace in PACES}


def drain_size(longer):
    return int(DRAIN_PER_S * (4 + sum(seconds * longer for _, seconds in PACES.values())))


def run(rig):
    results = {}
    empty(rig)
    n_backlog = drain_size(rig.longer)
    progress(f"loading {n_backlog:,} events for the drains")
    load(rig, n_backlog)
    for turn in range(1, rig.repeat + 1):
        for state in (IDLE, DRAINING):
            for who in (OURS, FLOOR) if turn % 2 else (FLOOR, OURS):
                progress(f"turn {turn} of {rig.repeat}: {who}, {state}")
                with rig.receiver() if state == DRAINING else nullcontext() as receiver:
                    for pace, result in measure(rig, who, receiver, rig.longer).items():
                        results.setdefault((state, pace, who), []).append(result)
    empty(rig)
    drop_floor(rig)
    return [one for state in (IDLE, DRAINING) for pace in PACES
            for one in figures(state, pace, results)]


def of_turns(turns, which, name):
    return [percentiles([took[which] for took in turn["took"]])[name] for turn in turns]


def of_all(turns, which, name):
    return [percentiles([took[which] for turn in turns for took in turn["took"]])[name]]


# What is rare is rare in one turn: p99.9 and max are those of all turns together.
SHOWN = {"p50": of_turns, "p99": of_turns, "p99.9": of_all, "max": of_all}


def figures(state, pace, results):
    ours, floor = results[state, pace, OURS], results[state, pace, FLOOR]
    targets = {}
    if state == IDLE and pace == 100:
        targets = {"p50": "< 0.5", "p99": "< 1", "ratio": "<= 1.25"}
    elif state == IDLE and pace == 5000:
        targets = {"p50": "< 2", "p99": "< 8"}
    what = f"{pace:,}/s, {state}"
    p50s = [of_turns(one, 1, "p50") for one in (ours, floor)]
    lines = [figure(f"{what}: {name}", "ms", values(ours, 1, name), targets.get(name))
             for name, values in SHOWN.items() if pace > 1 or name in ("p50", "max")]
    lines += [figure(f"{what}: floor, {name}", "ms", values(floor, 1, name))
              for name, values in SHOWN.items() if name == "p50" or (name == "p99" and pace > 1)]
    lines.append(figure(f"{what}: p50 to the floor's", "ratio",
                        [mine / theirs for mine, theirs in zip(*p50s)], targets.get("ratio")))
    if pace == 5000:
        # The pace is part of the target: what the machine cannot publish proves nothing.
        lines.append(figure(f"{what}: published", "per s", [turn["kept"] for turn in ours],
                            ">= 4,800" if state == IDLE else None))
        lines.append(figure(f"{what}: the floor lost", "events", [turn["lost"] for turn in floor]))
    if state == IDLE and pace >= 100:
        lines += [figure(f"{what}: CPU of {whose}", "us each", [turn[key] for turn in ours],
                         target if pace == 5000 else None)
                  for whose, key, target in (("the relay", "relay_us", "<= 8"),
                                             ("its backends", "backends_us", "<= 12"))]
    lines += [figure(f"{what}: {who}, from before COMMIT, {name}", "ms", values(turns, 0, name),
                     in_table=pace == 100 and state == IDLE and name in ("p50", "p99"))
              for who, turns in ((OURS, ours), (FLOOR, floor)) for name, values in SHOWN.items()]
    return lines
