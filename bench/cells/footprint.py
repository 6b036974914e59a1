"""What a relay costs when there is little or nothing to do, and how much memory when there is much.

Idle with 3 sinks and with 16; at full rate; with a million events waiting, before a sink that takes
them and before one that is down; with a backlog of large events. Limits are the defaults.
"""

import time

from load import empty, load
from rig import await_true, figure, memory_mib, progress

SETTLE_S = 3  # after the start, until what happens is what always happens
IDLE_S = 10  # two sweeps
WRITING_S = 3
BACKLOG = 1_000_000
LARGE_BYTES, N_LARGE = 65_536, 2_000
N_MANY = 16


def three_sinks(rig):
    return [rig.redis_sink("stream"),
            '{ name: webhook, topics: ["orders.*"], http: { url: "http://127.0.0.1:9/" } }',
            '{ name: lines, topics: ["refunds.*"], stdout: {} }']


def many_sinks(rig):
    return [rig.redis_sink(f"stream-{number}") for number in range(N_MANY)]


def dead_sink():
    return '{ name: stream, topics: ["**"], start: beginning, redis: { url: "redis://127.0.0.1:9" } }'


def wake_ups(pid):
    """How often the process has begun to wait."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file
                    if line.startswith("voluntary_ctxt_switches:"))


def statements(rig):
    """Those of the role `pgcourier` so far: PostgreSQL's log says each when told to."""
    with open(f"{rig.folder}/postgres.log", encoding="utf-8", errors="replace") as file:
        return sum("LOG:  execute " in line or "LOG:  statement: " in line for line in file)


def idle(rig, sinks):
    with rig.relay("footprint", sinks):
        pass  # makes the cursors
    rig.sql("ALTER ROLE pgcourier SET log_statement = 'all'")
    with rig.relay("footprint", sinks) as relay:
        rig.sql("ALTER ROLE pgcourier RESET log_statement")
        time.sleep(SETTLE_S)
        before = [statements(rig), wake_ups(relay.pid), time.monotonic()]
        time.sleep(IDLE_S)
        after = [statements(rig), wake_ups(relay.pid), time.monotonic()]
        spent = [now - then for then, now in zip(before, after)]
        return {"start": (relay.owned_us()[0] - relay.started_us) / 1000,
                "ready": (relay.owned_us()[-1] - relay.started_us) / 1000,
                "resident": memory_mib(relay.pid, "VmRSS"), "own": memory_mib(relay.pid, "RssAnon"),
                "statements": spent[0] / spent[2], "wake-ups": spent[1] / spent[2]}


def at_full_rate(rig):
    """Its peak while others write as fast as they can: events it has to take as they come."""
    empty(rig)
    with rig.relay("footprint", [rig.redis_sink("stream")]) as relay:
        deadline, n_written = time.monotonic() + WRITING_S, 0
        while time.monotonic() < deadline:
            rig.sql("""INSERT INTO courier.outbox (topic, key, type, payload)
                SELECT 'orders.paid', 'customer-' || n %% 1000, 'order',
                       (rpad('{"n": ' || n || ', "note": "', 254, 'x') || '"}')::json
                FROM generate_series(1, %s) AS n""", 200)
            n_written += 200
        await_true(lambda: relay.is_alive() and rig.stream_lengths() >= n_written, "full streams")
        return memory_mib(relay.pid, "VmHWM")


def with_backlog(rig, n_events):
    rig.forget()
    with rig.relay("footprint", [rig.redis_sink("stream", "start: beginning,")]) as relay:
        await_true(lambda: relay.is_alive() and rig.stream_lengths() >= n_events, "full streams")
        return memory_mib(relay.pid, "VmHWM")


def before_a_dead_sink(rig):
    """With as much of the backlog in memory as the limits allow."""
    rig.forget()
    with rig.relay("footprint", [dead_sink()]) as relay:
        time.sleep(SETTLE_S)
        return memory_mib(relay.pid, "VmHWM")


def run(rig):
    few, many, full, backlog, dead, large, large_dead = ([] for _ in range(7))
    for turn in range(1, rig.repeat + 1):
        progress(f"turn {turn} of {rig.repeat}: 3 sinks with nothing to do")
        empty(rig)
        few.append(idle(rig, three_sinks(rig)))
        progress(f"turn {turn} of {rig.repeat}: events as fast as they are written")
        full.append(at_full_rate(rig))
    progress(f"{N_MANY} sinks with nothing to do")
    empty(rig)
    many.append(idle(rig, many_sinks(rig)))

    # Peaks are those of buffers that grow to what is needed: one drain is enough.
    empty(rig)
    progress(f"{BACKLOG:,} events waiting")
    load(rig, BACKLOG)
    backlog.append(with_backlog(rig, BACKLOG))
    dead.append(before_a_dead_sink(rig))
    empty(rig)
    progress(f"{N_LARGE:,} events of {LARGE_BYTES:,} bytes waiting")
    load(rig, N_LARGE, LARGE_BYTES)
    large.append(with_backlog(rig, N_LARGE))
    large_dead.append(before_a_dead_sink(rig))
    empty(rig)

    figures = []
    for what, turns, target in (("3 sinks", few, "<= 12"), (f"{N_MANY} sinks", many, None)):
        figures += [figure(f"idle, {what}: {name}", unit, [turn[key] for turn in turns],
                           target if key == "resident" else None) for name, unit, key in (
            ("resident memory", "MiB", "resident"),
            ("of which its own (anonymous)", "MiB", "own"),
            ("wake-ups of the relay", "per s", "wake-ups"),
            ("statements sent to PostgreSQL", "per s", "statements"),
            ("start to the first lane owned", "ms", "start"),
            ("start to all lanes owned", "ms", "ready"))]
    return figures + [figure(f"peak resident memory, {what}", "MiB", values, target)
                      for what, values, target in (
        ("events as fast as they are written", full, None),
        (f"{BACKLOG:,} events waiting, drained", backlog, "<= 48"),
        (f"{BACKLOG:,} events waiting, the sink is down", dead, "<= 48"),
        (f"events of {LARGE_BYTES // 1024} KiB waiting, drained", large, "<= 48"),
        (f"events of {LARGE_BYTES // 1024} KiB waiting, the sink is down", large_dead, "<= 48"))]
