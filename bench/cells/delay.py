"""How late a delayed event is, while a great many others wait for tomorrow."""

import random
import time

import psycopg2

from measure import acknowledged_us, percentile
from rig import await_true, figure, progress

WAITING = 1_000_000
EVENTS = 400
SPREAD_S = 20
PERCENTILES = {"p50": 50, "p99": 99, "max": 100}


def park_many(rig):
    """Publishes the events of tomorrow and lets a relay park them; parked per second."""
    progress(f"  publishing {WAITING:,} events for tomorrow")
    rig.sql("TRUNCATE courier.outbox")
    for first in range(0, WAITING, 10_000):
        rig.sql("""
            INSERT INTO courier.outbox (topic, key, payload, deliver_at)
            SELECT 'later', 'customer-' || n %% 1000, '{"n": 1}', now() + '1 day' + n * '1 ms'::interval
            FROM generate_series(%s, %s) AS n""", first, first + 9_999)
    began = time.monotonic()
    with rig.relay("delay", [rig.redis_sink("delay", "start: beginning,")]):
        await_true(lambda: rig.sql("SELECT count(*) FROM courier.parked")[0][0] == WAITING,
                   "parking of all delayed events", interval_s=1)
        parked_per_s = WAITING / (time.monotonic() - began)
    rig.sql("VACUUM (ANALYZE) courier.parked")
    rig.sql("VACUUM (ANALYZE) courier.outbox")
    return parked_per_s


def publish(rig):
    """event id -> its deliver_at in microseconds."""
    due_us = {}
    connection = psycopg2.connect(rig.dsn("app"))
    connection.autocommit = True
    cursor = connection.cursor()
    for number in range(EVENTS):
        cursor.execute("""
            SELECT courier.publish('soon', '{}', key => %s, deliver_at => at)::text,
                   (extract(epoch FROM at) * 1000000)::bigint
            FROM (SELECT clock_timestamp() + %s * '1 ms'::interval AS at OFFSET 0) AS due""",
            (f"soon-{number}", 5000 + random.randrange(SPREAD_S * 1000)))
        event_id, at_us = cursor.fetchone()
        due_us[event_id] = at_us
    connection.close()
    return due_us


def lateness_ms(due_us, acknowledged):
    return [(acknowledged["delay", event_id] - at_us) / 1000 for event_id, at_us in due_us.items()]


def run(rig):
    rig.forget()
    parked_per_s = park_many(rig)
    progress(f"  {EVENTS} events due within {SPREAD_S} s")
    with rig.relay("delay", [rig.redis_sink("delay", "start: beginning,")]):
        due_us = publish(rig)
        time.sleep(1)
    progress("  the relay is restarted while they wait")
    with rig.relay("delay", [rig.redis_sink("delay", "start: beginning,")],
                   log_level="debug") as relay:
        await_true(lambda: relay.is_alive() and len(acknowledged_us(relay.log_path))
                   >= len(due_us), "acknowledgement of the delayed events", interval_s=0.5)
        acknowledged = acknowledged_us(relay.log_path)
    late = lateness_ms(due_us, acknowledged)
    if min(late) < 0:
        raise RuntimeError(f"an event came {-min(late):.3f} ms early")
    rig.sql("TRUNCATE courier.outbox, courier.parked")
    rig.has_backlog = False
    return [figure("delayed events parked", "events/s", [parked_per_s])] + [
        figure(f"deliver_at to acknowledgement, 1 million wait, {name}", "ms",
               [percentile(late, percent)]) for name, percent in PERCENTILES.items()]
