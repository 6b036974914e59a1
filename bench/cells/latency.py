"""From just before COMMIT to the acknowledgement of Redis, at an easy pace."""

import statistics
import time

import psycopg2

from measure import acknowledged_us, percentile
from rig import TOPICS, await_true, figure, progress

PER_SECOND = 100
SECONDS = 20
PERCENTILES = {"p50": 50, "p99": 99, "max": 100}


def publish(rig):
    """event id -> (wall time before its COMMIT, how long the COMMIT took), in microseconds."""
    published = {}
    connection = psycopg2.connect(rig.dsn("app"))
    cursor = connection.cursor()
    body = '{"note": "' + "x" * 244 + '"}'
    began = time.monotonic()
    for number in range(PER_SECOND * SECONDS):
        time.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
        cursor.execute("SELECT courier.publish(%s, %s, key => %s, type => 'order')",
                       (TOPICS[number % 2], body, f"customer-{number}"))
        event_id = cursor.fetchone()[0]
        before_us = time.time_ns() // 1000
        connection.commit()
        published[event_id] = (before_us, time.time_ns() // 1000 - before_us)
    connection.close()
    return published


def run(rig):
    rig.forget()
    progress(f"  publishing {PER_SECOND} events/s for {SECONDS} s")
    with rig.relay("latency", [rig.redis_sink("latency")], log_level="debug") as relay:
        time.sleep(1)
        published = publish(rig)
        await_true(lambda: relay.is_alive() and len(acknowledged_us(relay.log_path))
                   >= len(published), "acknowledgement of all events", interval_s=0.5)
    acknowledged = acknowledged_us(relay.log_path)
    total_ms = [(acknowledged["latency", event_id] - before_us) / 1000
                for event_id, (before_us, _) in published.items()]
    commit_ms = [took_us / 1000 for _, took_us in published.values()]
    after_ms = [total - commit for total, commit in zip(total_ms, commit_ms)]
    progress(f"  mean {statistics.mean(total_ms):.2f} ms")
    return [figure(f"{what}, {name}", "ms", [percentile(values, percent)])
            for what, values in {"before COMMIT to acknowledgement": total_ms,
                                 "of which COMMIT itself": commit_ms,
                                 "COMMIT's return to acknowledgement": after_ms}.items()
            for name, percent in PERCENTILES.items()]
