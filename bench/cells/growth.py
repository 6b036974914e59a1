"""Whether an event costs more where there is more: a larger backlog, more sinks, larger payloads.

The cost is the CPU time of the relay and of its PostgreSQL backends for each delivery, less what they
take to start with nothing to deliver. Of a large backlog a fixed number of events is drained from its
beginning, and as many from its middle: the cursor is put there, as if a relay had come so far.
"""

import os
import time

from load import empty, load
from rig import await_true, cpu_s, figure, progress

BACKLOGS = [10_000, 100_000, 1_000_000, 10_000_000]
BACKLOG_BYTES = 64  # small, so that loading the largest takes a minute and not ten
DRAINED = 100_000
PASSES = 5  # over the smallest backlog, which is over too soon for one
SINKS, SINKS_BACKLOG = [1, 4, 16], 50_000
PAYLOADS = {64: 50_000, 1024: 50_000, 16_384: 8_000, 262_144: 500}
BEGINNING, MIDDLE = "from its beginning", "from its middle"


def sinks(rig, n_sinks, start="beginning"):
    return [rig.redis_sink(f"growth-{n}", f"start: {start},") for n in range(n_sinks)]


def put_in_the_middle(rig, n_events):
    """Makes the cursor with a relay that gets nothing delivered, and moves it."""
    dead = ('{ name: growth-0, topics: ["**"], start: beginning,'
            ' redis: { url: "redis://127.0.0.1:9" } }')
    with rig.relay("growth", [dead]):
        pass
    # No session is writing, so it does not matter in which order the three are read.
    rig.sql("""
        UPDATE courier.cursor SET until_snapshot = pg_current_snapshot(), until_floor = max_id,
          until_xid = pg_current_xact_id(), last_id = max_id - %s / 2
        FROM (SELECT max(id) AS max_id FROM courier.outbox) AS newest""", n_events)


def cpu_of(relay, backends):
    return {"relay": cpu_s(relay.pid), "backends": sum(cpu_s(pid) for pid in backends)}


def of_start(rig, n_sinks):
    """CPU seconds of a relay that starts and finds nothing to do."""
    rig.forget()
    with rig.relay("growth", sinks(rig, n_sinks, "now")) as relay:
        time.sleep(0.1)
        result = cpu_of(relay, rig.backends("growth"))
    rig.forget()
    return result


def spent(rig, n_deliveries, n_sinks, start_s):
    """CPU seconds, wall seconds since the lanes were owned, and how many deliveries."""
    with rig.relay("growth", sinks(rig, n_sinks)) as relay:
        backends = rig.backends("growth")
        await_true(lambda: relay.is_alive() and rig.stream_lengths() >= n_deliveries, "deliveries",
                   interval_s=0.001)
        n, cpu, now_us = rig.stream_lengths(), cpu_of(relay, backends), time.time_ns() // 1000
        return {"n": n, "s": (now_us - relay.owned_us()[0]) / 1e6,
                **{who: cpu[who] - start_s[who] for who in cpu}}


def cost(spents):
    n = sum(one["n"] for one in spents)
    return {"cpu_us": sum(one["relay"] + one["backends"] for one in spents) * 1e6 / n,
            "backends_us": sum(one["backends"] for one in spents) * 1e6 / n,
            "per_s": n / sum(one["s"] for one in spents)}


def of_backlog(rig, n_events, start):
    n_drained = min(DRAINED, n_events if start == BEGINNING else n_events // 2)
    start_s, spents = of_start(rig, 1), []
    for _ in range(PASSES if n_events < DRAINED else 1):
        rig.forget()
        if start == MIDDLE:
            put_in_the_middle(rig, n_events)
        spents.append(spent(rig, n_drained, 1, start_s))
    return cost(spents)


def backlogs(rig, results):
    """Each in a database of its own, so that the sizes can take turns."""
    largest = int(os.environ.get("GROWTH_MAX", 1_000_000))
    outboxes = {}
    for n_events in [one for one in BACKLOGS if one <= largest]:
        progress(f"loading {n_events:,} events")
        outboxes[n_events] = rig.new_database(f"growth_{n_events}")
        load(outboxes[n_events], n_events, BACKLOG_BYTES)
    for turn in range(1, rig.repeat + 1):
        for n_events, outbox in outboxes.items():
            for start in (BEGINNING, MIDDLE):
                progress(f"turn {turn} of {rig.repeat}: a backlog of {n_events:,}, {start}")
                results.setdefault((n_events, start), []).append(
                    of_backlog(outbox, n_events, start))
    for outbox in outboxes.values():
        rig.drop_database(outbox)


def with_sinks(rig, results):
    empty(rig)
    load(rig, SINKS_BACKLOG)
    for turn in range(1, rig.repeat + 1):
        for n_sinks in SINKS:
            progress(f"turn {turn} of {rig.repeat}: {n_sinks} sinks")
            start_s = of_start(rig, n_sinks)
            results.setdefault(n_sinks, []).append(
                cost([spent(rig, SINKS_BACKLOG * n_sinks, n_sinks, start_s)]))


def with_payloads(rig, results):
    for n_bytes, n_events in PAYLOADS.items():
        empty(rig)
        load(rig, n_events, n_bytes)
        for turn in range(1, rig.repeat + 1):
            progress(f"turn {turn} of {rig.repeat}: payloads of {n_bytes:,} bytes")
            start_s = of_start(rig, 1)
            results.setdefault(n_bytes, []).append(cost([spent(rig, n_events, 1, start_s)]))


def lines(what, turns):
    return [figure(f"{what}: CPU of relay and backends", "us each", [turn["cpu_us"] for turn in turns]),
            figure(f"{what}: of which backends", "us each", [turn["backends_us"] for turn in turns],
                   in_table=False),
            figure(what, "per s", [turn["per_s"] for turn in turns])]


def ratios(what, of_large, of_small, target=None):
    return figure(what, "ratio", [large["cpu_us"] / small["cpu_us"]
                                  for large, small in zip(of_large, of_small)], target)


def run(rig):
    of_backlogs, of_sinks, of_payloads = {}, {}, {}
    backlogs(rig, of_backlogs)
    with_sinks(rig, of_sinks)
    with_payloads(rig, of_payloads)
    empty(rig)
    figures = []
    for (n_events, start), turns in of_backlogs.items():
        figures += lines(f"{n_events:,} waiting, {start}", turns)
    largest = max(n_events for n_events, _ in of_backlogs)
    figures += [ratios(f"CPU of an event, {largest:,} to {BACKLOGS[0]:,} waiting, {start}",
                       of_backlogs[largest, start], of_backlogs[BACKLOGS[0], start], "<= 1.3")
                for start in (BEGINNING, MIDDLE)]
    for n_sinks, turns in of_sinks.items():
        figures += lines(f"{n_sinks} sink{'s' if n_sinks > 1 else ''}, a delivery", turns)
    figures.append(ratios(f"CPU of a delivery, {SINKS[-1]} sinks to 1", of_sinks[SINKS[-1]], of_sinks[1]))
    for n_bytes, turns in of_payloads.items():
        figures += lines(f"payloads of {n_bytes:,} bytes", turns)
    return figures
