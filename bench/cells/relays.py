"""Several relays share the shards of a sink.

The rate of one, two, four and eight relays to a receiver that takes 100 ms for each request, of which each
relay has 16 in flight. What relays cost that have nothing to do. And eight relays that are restarted one
after the other under load: how long each event takes from its COMMIT to its arrival, how many come twice,
and how many come out of the order of their keys.
"""

import os
import time

from load import empty, load
from measure import percentile
from pace import OUR_INSERT, commits, publisher
from rig import await_true, cpu_s, figure, progress, transactions

SHARDS, CONCURRENCY, DELAY_MS = 64, 16, 100
RELAYS = (1, 2, 4, 8)
SECONDS, IDLE_S = 8, 20
STATISTICS_S = 12  # a backend at rest keeps its counts for itself for ten seconds
PER_SECOND, CONNECTIONS, N_RESTARTED = 2_000, 4, 8
PER_RELAY_S = 5  # for which the publisher goes on for each restart
KEYS = 1000  # of OUR_INSERT


def sink(receiver, concurrency=CONCURRENCY):
    return ("{ name: hooks, topics: ['**'], start: beginning, shards: %d, concurrency: %d,"
            " http: { url: 'http://127.0.0.1:%d/0' } }" % (SHARDS, concurrency, receiver.port))


def owned(rig):
    """How many shards each relay has."""
    return [n for n, in rig.sql(
        "SELECT count(*) FROM courier.cursor JOIN courier.relay_lock USING (lock_id) GROUP BY pid")]


def await_spread(rig, n_relays, n_shards=SHARDS):
    await_true(lambda: sorted(owned(rig)) == [n_shards // n_relays] * n_relays,
               f"even spread over {n_relays} relays")


class Relays:
    """Running relays with the same sinks, whose shards are spread evenly; use it with `with`."""

    def __init__(self, rig, n_relays, sinks, n_shards=SHARDS):
        self.rig, self.n_relays = rig, n_relays
        self.sinks, self.n_shards = sinks, n_shards
        self.relays = []

    def start(self, number):
        return self.rig.relay(f"relay-{number}", self.sinks)

    def __enter__(self):
        self.relays = [self.start(number) for number in range(self.n_relays)]
        await_spread(self.rig, self.n_relays, self.n_shards)
        return self

    def restart(self, number):
        self.relays[number].process.terminate()
        if self.relays[number].process.wait(timeout=60) != 0:
            raise RuntimeError("a relay did not end well")
        self.relays[number] = self.start(number)
        await_spread(self.rig, self.n_relays, self.n_shards)

    def __exit__(self, *_):
        for relay in self.relays:
            relay.process.terminate()
        for relay in self.relays:
            relay.process.wait(timeout=60)


def backends(rig):
    return [pid for pid, in rig.sql(
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'relay-%'")]


# ---- linear -------------------------------------------------------------------------------------

def rate(rig, receiver, n_relays):
    rig.forget()
    with Relays(rig, n_relays, [sink(receiver)]):
        first, began = receiver.count(), time.monotonic()
        time.sleep(SECONDS)
        per_s = (receiver.count() - first) / (time.monotonic() - began)
        if rig.sql("SELECT count(*) FROM courier.outbox")[0][0] <= receiver.count():
            raise RuntimeError("the backlog was too short")
    return per_s


def linear(rig):
    turns = {n_relays: [] for n_relays in RELAYS}
    empty(rig)
    load(rig, 120_000)
    for turn in range(1, rig.repeat + 1):
        for n_relays in RELAYS:
            progress(f"turn {turn} of {rig.repeat}: {n_relays} relays")
            with rig.receiver(DELAY_MS) as receiver:
                turns[n_relays].append(rate(rig, receiver, n_relays))
    lines = []
    for n_relays in RELAYS:
        lines.append(figure(f"{n_relays} relays, {CONCURRENCY} requests of {DELAY_MS} ms each", "events/s",
                            turns[n_relays]))
        if n_relays > 1:
            lines.append(figure(f"{n_relays} relays, to {n_relays} times one", "ratio",
                                [many / one / n_relays for many, one in zip(turns[n_relays], turns[1])],
                                ">= 0.95"))
    return lines


# ---- idle ---------------------------------------------------------------------------------------

def idle_cost(rig, receiver, n_relays):
    watcher = rig.watcher()
    rig.forget()
    with Relays(rig, n_relays, [sink(receiver)]) as relays:
        time.sleep(STATISTICS_S)
        pids = [relay.pid for relay in relays.relays]
        before = [transactions(watcher), sum(map(cpu_s, backends(rig))), sum(map(cpu_s, pids))]
        time.sleep(IDLE_S)
        after = [transactions(watcher), sum(map(cpu_s, backends(rig))), sum(map(cpu_s, pids))]
    return [(late - early) / IDLE_S for early, late in zip(before, after)]


def idle(rig):
    turns = {1: [], 8: []}
    empty(rig)
    for turn in range(1, rig.repeat + 1):
        for n_relays in turns:
            progress(f"turn {turn} of {rig.repeat}: {n_relays} relays without work")
            with rig.receiver() as receiver:
                turns[n_relays].append(idle_cost(rig, receiver, n_relays))
    lines = []
    for n_relays, costs in turns.items():
        what = f"{n_relays} idle relays, {SHARDS} shards"
        lines += [figure(f"{what}: statements", "per s", [cost[0] for cost in costs]),
                  figure(f"{what}: CPU of PostgreSQL", "% of a core", [cost[1] * 100 for cost in costs]),
                  figure(f"{what}: CPU of all relays", "% of a core", [cost[2] * 100 for cost in costs])]
    return lines


# ---- kill -9 ------------------------------------------------------------------------------------

def takeovers(rig):
    """Kills one relay after another: how long until others have its shards."""
    took_ms = []
    empty(rig)
    with rig.receiver() as receiver, Relays(rig, 4, [sink(receiver)]) as relays:
        for number in range(4):
            progress(f"kill {number + 1} of 4")
            began = time.monotonic()
            relays.relays[number].process.kill()
            await_true(lambda: sum(owned(rig)) < SHARDS, "locks that have fallen", 0.001)
            await_true(lambda: sum(owned(rig)) == SHARDS, "owners of all shards", 0.005)
            took_ms.append((time.monotonic() - began) * 1000)
            relays.relays[number].process.wait()
            relays.relays[number] = relays.start(number)
            await_spread(rig, 4)
    return took_ms


def killed(rig):
    return [figure("kill -9 of one of 4 relays: all shards have an owner again after", "ms",
                   [one for _ in range(rig.repeat) for one in takeovers(rig)], "<= 300")]


# ---- restarts -----------------------------------------------------------------------------------

def out_of_order(requests):
    """Events that came, for the first time, after a later one of their key."""
    last, seen, n_wrong = {}, set(), 0
    for _, _, number, _ in requests:
        if number in seen:
            continue
        seen.add(number)
        n_wrong += last.get(number % KEYS, -1) > number
        last[number % KEYS] = max(number, last.get(number % KEYS, -1))
    return n_wrong


def restarts(rig):
    empty(rig)
    rig.forget()
    with rig.receiver() as receiver, Relays(rig, N_RESTARTED, [sink(receiver, 64)]) as relays:
        program = publisher(rig, "app", OUR_INSERT, PER_SECOND, N_RESTARTED * PER_RELAY_S, CONNECTIONS)
        began = time.monotonic()
        for number in range(N_RESTARTED):
            progress(f"restart {number + 1} of {N_RESTARTED}")
            relays.restart(number)
        took_s = time.monotonic() - began
        if program.wait() != 0:
            raise RuntimeError("the publisher failed")
        times = commits(rig)
        await_true(lambda: receiver.count() >= len(times), "arrivals")
        time.sleep(1)
        requests = receiver.requests()
    arrived = {}
    for _, arrived_us, number, _ in requests:
        arrived.setdefault(number, arrived_us)
    lost = len(set(times) - set(arrived))
    waits = [(arrived[number] - times[number][1]) / 1000 for number in times if number in arrived]
    if took_s > N_RESTARTED * PER_RELAY_S:
        progress(f"the restarts took {took_s:.0f} s, the load {N_RESTARTED * PER_RELAY_S} s")
    return {"p50": percentile(waits, 50), "p99": percentile(waits, 99), "max": max(waits),
            "twice": len(requests) - len(arrived), "lost": lost, "order": out_of_order(requests)}


def rolling(rig):
    turns = [restarts(rig) for _ in range(rig.repeat)]
    what = f"{N_RESTARTED} relays restarted in turns, {PER_SECOND:,} events/s"
    return [figure(f"{what}: p50 from COMMIT to arrival", "ms", [turn["p50"] for turn in turns]),
            figure(f"{what}: p99", "ms", [turn["p99"] for turn in turns], "<= 250"),
            figure(f"{what}: max", "ms", [turn["max"] for turn in turns]),
            figure(f"{what}: came twice", "events", [turn["twice"] for turn in turns], "<= 0"),
            figure(f"{what}: out of order", "events", [turn["order"] for turn in turns], "<= 0"),
            figure(f"{what}: lost", "events", [turn["lost"] for turn in turns], "<= 0")]


def run(rig):
    lines = linear(rig) + idle(rig) + killed(rig) + rolling(rig)
    empty(rig)
    return lines
