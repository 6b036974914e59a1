"""What a call of courier.publish() costs, without a dedup key and with one.

Over one connection, in turns: an INSERT; the call as a function in SQL, which a session plans anew each
time; courier.publish() without a key, with a new one, with one that stands for an event already. A
million other keys are there. CPU time of the backend for each call, each in a transaction of its own;
ratios to the function in SQL, of neighbouring batches. Commits do not wait for the disk. Then how long
it takes to remove those keys when they have expired.
"""

import statistics
import time

import psycopg2

from rig import PAYLOAD_BYTES, cpu_s, figure, progress

INSERT, SQL, NONE, NEW, SAME = ("INSERT", "publish as a function in SQL", "courier.publish",
                                "with a new dedup key", "with a repeated dedup key")
WAYS = [INSERT, SQL, NONE, NEW, SAME]
CALLS, BATCHES = 250, 40  # of a batch; of a turn, for each way
KEYS = 1_000_000

PAYLOAD = '{"note": "' + "x" * (PAYLOAD_BYTES - 12) + '"}'
MAKE = """
    CREATE FUNCTION courier.publish_in_sql(
      topic text, payload json DEFAULT NULL, key text DEFAULT NULL, type text DEFAULT NULL,
      headers jsonb DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, data bytea DEFAULT NULL,
      event_id uuid DEFAULT gen_random_uuid()
    ) RETURNS uuid LANGUAGE sql AS $$
      INSERT INTO courier.outbox (event_id, topic, key, type, payload, data, headers, deliver_at)
      VALUES (event_id, topic, key, type, payload, data, headers, deliver_at);
      SELECT event_id;
    $$;
    INSERT INTO courier.dedup (key, event_id)
      SELECT 'order-' || n || ':v1', gen_random_uuid() FROM generate_series(1, %s) AS n"""


def statement(way, number):
    if way == INSERT:
        return "INSERT INTO courier.outbox (topic, payload, key) VALUES ('orders.created', %s, '17')", ()
    key = {NEW: f"new-{number}:v1", SAME: f"order-{number % 1000 + 1}:v1"}.get(way)
    name = "courier.publish_in_sql" if way == SQL else "courier.publish"
    return (f"SELECT {name}('orders.created', %s, key => '17'"
            + (", dedup_key => %s)" if key else ")"), (key,) if key else ())


def batch(cursor, pid, way, first):
    calls = [statement(way, first + n) for n in range(CALLS)]
    cpu = cpu_s(pid)
    for sql, values in calls:
        cursor.execute(sql, (PAYLOAD, *values))
    return (cpu_s(pid) - cpu) * 1e6 / CALLS


def measure(database, turn):
    """Of each way the CPU microseconds of a call, and how that compares with the function in SQL."""
    database.sql("TRUNCATE courier.outbox")
    connection = psycopg2.connect(database.dsn("postgres"))
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("SET synchronous_commit = off")
    pid = connection.get_backend_pid()
    spent = {way: [] for way in WAYS}
    for number in range(-1, BATCHES):  # in the first, what is only done once, is done
        for way in WAYS if number % 2 else reversed(WAYS):
            us = batch(cursor, pid, way, (turn * (BATCHES + 1) + number + 1) * CALLS)
            if number >= 0:
                spent[way].append(us)
    connection.close()
    return {way: {"us": statistics.median(spent[way]),
                  "ratio": statistics.median(one / sql for one, sql in zip(spent[way], spent[SQL]))}
            for way in WAYS}


def forget(database):
    """Expired keys a second, and how long one transaction of 10,000 takes."""
    database.sql("UPDATE courier.dedup SET published_at = published_at - interval '8 days'")
    database.sql("ANALYZE courier.dedup")
    connection = psycopg2.connect(database.dsn("postgres"))
    connection.autocommit = True
    cursor = connection.cursor()
    since, took, n_keys = "-infinity", [], 10_000
    while n_keys == 10_000:
        began = time.perf_counter()
        cursor.execute("SELECT keys, until::text FROM courier.forget_dedup_keys(since => %s)", (since,))
        n_keys, since = cursor.fetchone()
        took.append(time.perf_counter() - began)
    connection.close()
    return [figure("expired dedup keys removed", "per s", [KEYS / sum(took)]),
            figure("a transaction that removes 10,000", "ms", [statistics.median(took) * 1e3])]


def run(rig):
    database = rig.new_database("once")
    database.sql(MAKE % KEYS)
    turns = []
    for turn in range(rig.repeat):
        progress(f"turn {turn + 1} of {rig.repeat}")
        turns.append(measure(database, turn))
    lines = [figure(f"{way}: CPU of the backend", "us each", [turn[way]["us"] for turn in turns])
             for way in WAYS]
    lines += [figure(f"{way}: CPU, to the function in SQL", "ratio", [turn[way]["ratio"] for turn in turns],
                     "<= 1.02" if way == NONE else None) for way in (NONE, NEW, SAME)]
    progress("removing expired keys")
    lines += forget(database)
    rig.drop_database(database)
    return lines
