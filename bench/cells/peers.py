"""pgcourier beside programs that others use for the same: bench/peers, each as its documentation advises.

A backlog to Redis Streams, and to a webhook receiver that answers at once and after 100 ms; the time from
COMMIT to the receiver; the writers' rate while it delivers; what all that costs. Each publishes by
its own call. Rates begin when a quarter has arrived: no start counts, nor Java's first steps. After 100 ms,
where all comes in waves, they begin with the first arrival.
"""

import os
import time

from cells.writers import pgbench
from pace import entries, percentiles, publish
from peers import PEERS
from peers.peer import AT_ONCE, DRAIN, HTTP, LATENCY, REDIS, SLOW
from progress import progress
from rig import await_true, cpu_s, figure, memory_mib, not_measured, process_cpu_s

DELAY_MS = {AT_ONCE: 0, SLOW: 100}
PACES = {100: (1, 3), 1000: (2, 2)} # events a second -> the publisher's connections, and seconds
WARM_UP = (200, 0.5)
SETTLE_S = 1 # after the last arrival, until all is accounted for: some complete later
CLIENTS = 16
TABLE = """
    CREATE TABLE public.bought (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                                customer integer NOT NULL, bought_at timestamptz NOT NULL DEFAULT now())"""
SCRIPT = r"""
\set n random(1, 1000)
BEGIN;
INSERT INTO public.bought (customer) VALUES (:n);
%s;
COMMIT;
"""


class Arrivals:
    """What has come, and when; use it with `with`."""

    def __init__(self, rig, peer, purpose, kind):
        self.rig, self.stream, self.kind = rig, peer.stream, kind
        self.receiver = rig.receiver(DELAY_MS.get(purpose, 0)) if kind == HTTP else None
        self.look_every_s = 0.005

    def __enter__(self):
        self.rig.redis.flushall()
        return self

    def __exit__(self, *_):
        if self.receiver:
            self.receiver.__exit__()

    def target(self):
        if self.receiver:
            return f"{HTTP}:{self.receiver.port}"
        with open(f"{self.rig.folder}/redis.port", encoding="ascii") as file:
            return f"{REDIS}:{file.read().strip()}"

    def count(self):
        return self.receiver.count() if self.receiver else self.rig.redis.xlen(self.stream)

    def by_number(self):
        """number -> when it first came, in microseconds; by Redis' clock in whole milliseconds."""
        at_us = {}
        if self.receiver:
            for _, arrived_us, number, _ in self.receiver.requests():
                at_us.setdefault(number, arrived_us)
        else:
            for entry_id, number in entries(self.rig, self.stream):
                at_us.setdefault(number, int(entry_id.split("-")[0]) * 1000 + 500)
        return at_us


def backends(rig):
    """CPU seconds of all that are connected to the database but this."""
    return sum(cpu_s(pid) for pid, in rig.sql(
        "SELECT pid FROM pg_stat_activity WHERE datname = 'bench' AND pid <> pg_backend_pid()"
        " AND backend_type IN ('client backend', 'walsender')"))


def n_connected(rig):
    return rig.sql("SELECT count(*) FROM pg_stat_activity WHERE datname = 'bench'"
                   " AND pid <> pg_backend_pid() AND backend_type IN ('client backend', 'walsender')")[0][0]


def dead_rows(rig):
    await_true(lambda: n_connected(rig) == 0, "end of the backends")
    return int(rig.sql("SELECT sum(n_tup_upd + n_tup_del) FROM pg_stat_user_tables")[0][0])


def spent(rig, program):
    return sum(process_cpu_s(pid) for pid in program.pids), backends(rig)


def drain(rig, peer, purpose):
    n_events = peer.n_events[purpose]
    n_first = 1 if purpose == SLOW else n_events // 4
    peer.empty()
    peer.fill(n_events)
    rig.sql("VACUUM (ANALYZE)")
    rig.sql("CHECKPOINT")
    dead_before = dead_rows(rig)
    kind = REDIS if purpose == DRAIN else HTTP
    with Arrivals(rig, peer, purpose, kind) as arrivals:
        with peer.running(arrivals.target(), purpose) as program:
            await_true(lambda: program.is_alive() and arrivals.count() >= n_first,
                       f"first events of {peer.name}", arrivals.look_every_s)
            began, n_before, before = time.monotonic(), arrivals.count(), spent(rig, program)
            await_true(lambda: program.is_alive() and arrivals.count() >= n_events,
                       f"last event of {peer.name}", arrivals.look_every_s)
            seconds = time.monotonic() - began
            time.sleep(SETTLE_S)
            after = spent(rig, program)
            peak_mib = sum(memory_mib(pid, "VmHWM") for pid in program.pids)
        if arrivals.count() != n_events:
            raise RuntimeError(f"{peer.name}: {arrivals.count()} arrivals of {n_events} events")
        if kind == HTTP:
            came_us = sorted(arrived_us for _, arrived_us, _, _ in arrivals.receiver.requests())
            # One more than there are intervals, where they do not come in waves.
            seconds = (came_us[-1] - came_us[n_first - 1]) / 1e6 + DELAY_MS[purpose] / 1000
            per_s = (n_events - n_first + (purpose == SLOW)) / seconds
        else:
            per_s = (n_events - n_before) / seconds
    cpu_us, backends_us = [(now - then) / (n_events - n_before) * 1e6 for then, now in zip(before, after)]
    return {"per_s": per_s, "cpu_us": cpu_us, "backends_us": backends_us, "peak_mib": peak_mib,
            "dead": (dead_rows(rig) - dead_before) / n_events}


def latency(rig, peer):
    """pace -> percentiles of the milliseconds from COMMIT's return to the receiver."""
    peer.empty()
    kind = REDIS if peer.cannot(AT_ONCE) else HTTP
    n_warm = peer.n_warm[LATENCY]
    peer.fill(n_warm)
    committed, numbers = {}, {}
    with Arrivals(rig, peer, LATENCY, kind) as arrivals:
        with peer.running(arrivals.target(), LATENCY) as program:
            await_true(lambda: program.is_alive() and arrivals.count() >= n_warm, f"start of {peer.name}")
            for per_second, (n_connections, seconds) in {WARM_UP[0]: (1, WARM_UP[1]), **PACES}.items():
                of_pace = publish(rig, "postgres", peer.prepared(), per_second, seconds, n_connections,
                                  n_warm + 1 + len(committed))
                numbers[per_second] = list(of_pace)
                committed |= of_pace
                await_true(lambda: program.is_alive() and arrivals.count() >= n_warm + len(committed),
                           f"events of {peer.name}", interval_s=0.05)
        at_us = arrivals.by_number()
    return {per_second: percentiles([(at_us[n] - committed[n][1]) / 1000 for n in numbers[per_second]])
            for per_second in PACES}


def write(rig, peer):
    return pgbench(rig, CLIENTS, SCRIPT % peer.of_pgbench(), user="postgres")


def writers(rig, peer):
    """Transactions a second without it and with it, and the share of their events that it kept up with."""
    peer.empty()
    alone = write(rig, peer)["per_s"]
    peer.empty()
    n_warm = peer.n_warm[DRAIN]
    peer.fill(n_warm)
    with Arrivals(rig, peer, DRAIN, REDIS) as arrivals:
        with peer.running(arrivals.target(), DRAIN) as program:
            await_true(lambda: program.is_alive() and arrivals.count() >= n_warm, f"start of {peer.name}")
            beside = write(rig, peer)
            kept_up = (arrivals.count() - n_warm) / beside["n"]
    return {"alone": alone, "beside": beside["per_s"], "kept_up": kept_up}


def drains(rig, peer, results):
    for purpose in (DRAIN, AT_ONCE, SLOW):
        if not peer.cannot(purpose):
            result = drain(rig, peer, purpose)
            results.setdefault((peer.name, purpose), []).append(result)
            progress(f"{peer.name}, {purpose}: {result['per_s']:,.0f}/s")


def run(rig):
    wanted = os.environ.get("PEERS")
    of_all = [peer(rig) for peer in PEERS if not wanted or peer.name in wanted.split(",")]
    here = [peer for peer in of_all if not peer.missing()]
    results = {}
    rig.sql("CREATE SCHEMA IF NOT EXISTS baseline")
    rig.sql(TABLE)
    for peer in here:
        peer.create()
    for turn in range(1, rig.repeat + 1):
        for peer in here if turn % 2 else reversed(here):
            progress(f"turn {turn} of {rig.repeat}: {peer.name}")
            drains(rig, peer, results)
            results.setdefault((peer.name, LATENCY), []).append(latency(rig, peer))
            results.setdefault((peer.name, "writers"), []).append(writers(rig, peer))
    return [line for peer in of_all for line in figures(peer, results)]


def figures(peer, results):
    if peer.missing():
        return [not_measured(peer.name, peer.missing())]
    who = f"{peer.name} {peer.version()}"
    lines = []
    for purpose, what in ((DRAIN, "to Redis"), (AT_ONCE, "webhooks, answered at once"),
                          (SLOW, f"webhooks, answered after {DELAY_MS[SLOW]} ms")):
        if peer.cannot(purpose):
            lines.append(not_measured(f"{who}: {what}", peer.cannot(purpose)))
        else:
            lines += rates(f"{who}: {what}", results[peer.name, purpose], purpose == SLOW)
    turns = results[peer.name, LATENCY]
    where = "Redis" if peer.cannot(AT_ONCE) else "the receiver"
    lines += [figure(f"{who}: {pace:,}/s, COMMIT to {where}, {name}", "ms",
                     [turn[pace][name] for turn in turns]) for pace in PACES for name in ("p50", "p99")]
    turns = results[peer.name, "writers"]
    return lines + [
        figure(f"{who}: {CLIENTS} writers without it", "per s", [turn["alone"] for turn in turns]),
        figure(f"{who}: {CLIENTS} writers with it", "per s", [turn["beside"] for turn in turns]),
        figure(f"{who}: {CLIENTS} writers with it, of without", "ratio",
               [turn["beside"] / turn["alone"] for turn in turns]),
        figure(f"{who}: of the writers' events, delivered meanwhile", "ratio",
               [turn["kept_up"] for turn in turns])]


def rates(what, turns, only_rate):
    shown = {"rate": ("per_s", "per s"), "CPU of the program": ("cpu_us", "us each"),
             "CPU of PostgreSQL's backends": ("backends_us", "us each"), "dead rows": ("dead", "each"),
             "peak resident memory": ("peak_mib", "MiB")}
    return [figure(what if name == "rate" else f"{what}, {name}", unit, [turn[key] for turn in turns],
                   in_table=name == "rate" or not only_rate)
            for name, (key, unit) in shown.items()]
