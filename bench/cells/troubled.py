"""What a relay and an operator feel of a million parked keys, 100,000 dead letters and 1,000 schedules.

Each figure is taken first where nothing of this is there, then with all of it: a start until the lane is
owned, `pgcourier status`, events at a pace, and parked rows that are due. The limit max_parked is raised,
as it must be where so many are to wait; all parked rows are of one sink, and each has its own key.
"""

import statistics
import subprocess
import time

from load import empty, load
from pace import OUR_INSERT, Acks, await_acks, entries, percentiles, publish
from rig import await_true, figure, memory_mib, progress

PARKED, DEAD, SCHEDULES = 1_000_000, 100_000, 1_000
DUE = 1_000
PER_SECOND, SECONDS = 100, 3
LOOKS = 10
STREAM = "events:pace"
NONE, ALL = "nothing there", "all of it there"


def sink(rig):
    return rig.redis_sink("troubled", f"start: beginning, max_parked: {2 * PARKED},", topics="pace")


def started(rig, acks):
    return rig.relay("troubled", [sink(rig)], environment=acks.environment)


def fill(rig):
    """Milliseconds of a courier.schedule(), the median."""
    progress(f"  {PARKED:,} parked keys, {DEAD:,} dead letters, {SCHEDULES:,} schedules")
    rig.sql("""
        INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, attempts, last_error,
                                    last_failed_at, event_id, topic, key, payload, created_at)
        SELECT 'troubled', 0, id, 'retry', now() + '1 day' + id * '1 ms'::interval, 3, 'HTTP 503', now(),
               event_id, 'pace', 'parked-' || id, payload, created_at
        FROM courier.outbox ORDER BY id LIMIT %s""", PARKED)
    rig.sql("""
        INSERT INTO courier.dead_letter (sink, lane, outbox_id, reason, attempts, error, event_id, topic,
                                         key, payload, created_at)
        SELECT 'troubled', 0, id, 'rejected', 1, 'HTTP 400', event_id, 'pace', 'dead-' || id, payload,
               created_at
        FROM courier.outbox ORDER BY id LIMIT %s""", DEAD)
    took = []
    for number in range(SCHEDULES):
        began = time.monotonic()
        rig.sql("SELECT courier.schedule(%s, 'later', '{}', every => '1 day', starting => now() + '1 day')",
                f"schedule-{number}")
        took.append((time.monotonic() - began) * 1000)
    for table in ("parked", "dead_letter", "schedule"):
        rig.sql(f"VACUUM (ANALYZE) courier.{table}")
    rig.sql("CHECKPOINT")
    return statistics.median(took)


def status_ms(rig):
    command = [f"{rig.folder}/pgcourier", "status", "--json", "-c", f"{rig.folder}/troubled.yaml"]
    took = []
    for _ in range(LOOKS):
        began = time.monotonic()
        # 1: it has findings.
        if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode not in (0, 1):
            raise RuntimeError("pgcourier status failed")
        took.append((time.monotonic() - began) * 1000)
    return statistics.median(took)


def paced(rig, relay, acks, first):
    committed = publish(rig, "app", OUR_INSERT, PER_SECOND, SECONDS, 1, first)
    await_acks(relay, acks, len(committed))
    times_us = acks.times_us()
    return percentiles([(times_us[entry] - committed[number][1]) / 1000
                        for entry, number in entries(rig, STREAM) if number in committed])


def measure(rig, first):
    rig.redis.flushall()
    acks = Acks(rig, "troubled")
    with started(rig, acks) as relay:
        result = {"owned_ms": (relay.owned_us()[0] - relay.started_us) / 1000}
        result |= paced(rig, relay, acks, first)
        result["status_ms"] = status_ms(rig)
        result["mib"] = memory_mib(relay.pid, "VmHWM")
    acks.close()
    return result


def claims_ms(rig):
    """From the start of a relay until it has delivered parked rows that are due then."""
    rig.redis.flushall()
    rig.sql("UPDATE courier.parked SET due_at = now() WHERE outbox_id IN"
            " (SELECT outbox_id FROM courier.parked ORDER BY outbox_id LIMIT %s)", DUE)
    with rig.relay("troubled", [sink(rig)]) as relay:
        await_true(lambda: relay.is_alive() and rig.redis.xlen(STREAM) >= DUE, "parked rows",
                   interval_s=0.001)
        return (time.time_ns() // 1000 - relay.owned_us()[0]) / 1000


def run(rig):
    results = {NONE: [], ALL: []}
    schedule_ms, due_ms, numbers = [], [], iter(range(0, 10 ** 9, PER_SECOND * SECONDS))
    empty(rig)
    load(rig, PARKED)
    with rig.relay("troubled", [sink(rig)]):  # makes the cursor, and passes what is not its topic
        await_true(lambda: rig.sql("SELECT from_floor >= %s FROM courier.cursor", PARKED)[0][0],
                   "cursor at the end")
    for turn in range(1, rig.repeat + 1):
        progress(f"turn {turn} of {rig.repeat}")
        results[NONE].append(measure(rig, next(numbers)))
        schedule_ms.append(fill(rig))
        results[ALL].append(measure(rig, next(numbers)))
        due_ms.append(claims_ms(rig))
        rig.sql("TRUNCATE courier.parked, courier.dead_letter")
        rig.sql("DELETE FROM courier.schedule")
    empty(rig)
    figures = []
    for name, unit, what in (("owned_ms", "ms", "start to lane_owned"),
                             ("p50", "ms", f"{PER_SECOND}/s, COMMIT to acknowledgement, p50"),
                             ("p99", "ms", f"{PER_SECOND}/s, COMMIT to acknowledgement, p99"),
                             ("status_ms", "ms", "pgcourier status"),
                             ("mib", "MiB", "peak memory of the relay")):
        figures += [figure(f"{what}, {state}", unit, [result[name] for result in results[state]])
                    for state in (NONE, ALL)]
    return figures + [
        figure("a courier.schedule(), of 1,000", "ms", schedule_ms),
        figure(f"lane_owned until {DUE:,} parked rows that are due are delivered, all of it there", "ms",
               due_ms)]
