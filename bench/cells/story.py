"""What people ask about receivers, of a running relay's admin endpoint: with 10,000 receivers, 1,000 of which
fail, and a million attempts that are kept. From the request to the last byte of the answer.
"""

import http.client
import json
import time

from cells.fanout import TENANTS, add_tenants, first_of_each
from load import empty
from rig import await_true, figure, free_port, memory_mib, progress

FAILING = 1000
ATTEMPTS = 1_000_000
ASKED = 20
TARGET = "<= 100"
QUESTIONS = {"the list: 50 of them, those that fail first": "/api/receivers?limit=50",
             "the list: 50 from the middle": "/api/receivers?limit=50&offset=5000",
             "a search": "/api/receivers?limit=50&search=nant-77",
             "the story of one that fails": "/api/receivers/tenant-500",
             "the story of one that works": "/api/receivers/tenant-5000",
             "the way of an event": "/api/trace/%(id)s",
             "the way of an event, by its id": "/api/trace/%(event_id)s"}


def keep_attempts(rig):
    """Each a row of its own, as where the answers differ. Half of those to receivers that fail failed."""
    rig.sql("""
        INSERT INTO courier.attempt_pack (sink, lane, outcome, number, status, answer, expires_on, at, first_id,
                                          last_id, ids, after_us, took_us)
        SELECT 'hooks', lane, outcome, 1 + n %% 5, 500, 'the answer to ' || n, expires_on,
               now() - n * interval '0.2 s', n, n, ARRAY[n::bigint], '{0}', '{1500}'
        FROM (SELECT n, 1 + n %% %s AS lane,
                     CASE WHEN n %% %s < %s AND n %% 2 = 0 THEN 'retry' ELSE 'delivered' END AS outcome,
                     (SELECT max(expires_on) FROM courier.attempt_pack) AS expires_on
              FROM generate_series(1, %s) AS n) AS each""", TENANTS, TENANTS, FAILING, ATTEMPTS)
    rig.sql("VACUUM (ANALYZE) courier.attempt_pack, courier.outbox, courier.cursor, courier.receiver")


def ask(port, path):
    """Milliseconds, and the answer."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status}: {body[:200]}")
    return (time.monotonic() - began) * 1000, json.loads(body)


def run(rig):
    empty(rig)
    rig.sql("TRUNCATE courier.receiver RESTART IDENTITY CASCADE")  # their ids are their lanes: from 1
    with rig.receiver() as receiver:
        admin = free_port(2)
        closed = admin + 1
        add_tenants(rig, receiver)
        rig.sql("UPDATE courier.receiver SET url = 'http://127.0.0.1:%s/' WHERE id <= %s", closed, FAILING)
        sink = ("{ name: hooks, topics: ['**'], attempts: all, http: { receivers: table,"
                " allow_networks: [127.0.0.0/8], allow_ports: [%d, %d] } }" % (receiver.port, closed))
        with rig.relay("story", [sink], n_lanes=TENANTS,
                       settings=f"admin: {{ listen: '127.0.0.1:{admin}' }}\n") as relay:
            progress("  waiting until each of 9,000 has an event, and 1,000 are known to fail")
            for _ in range(5):
                first_of_each(rig)
            await_true(lambda: relay.is_alive() and receiver.count() >= 5 * (TENANTS - FAILING),
                       "five events of each", interval_s=0.2)
            await_true(lambda: rig.sql("SELECT count(*) = %s FROM courier.receiver WHERE failing_since IS NOT NULL",
                                       FAILING)[0][0], "receivers that are known to fail", interval_s=1)
            progress("  keeping a million attempts")
            keep_attempts(rig)
            event = dict(zip(("id", "event_id"), rig.sql("SELECT id, event_id FROM courier.outbox"
                                                         " ORDER BY id OFFSET 25000 LIMIT 1")[0]))
            took = {what: [] for what in QUESTIONS}
            for _ in range(ASKED * rig.repeat // 3):
                for what, path in QUESTIONS.items():
                    ms, answer = ask(admin, path % event)
                    took[what].append(ms)
            first = ask(admin, QUESTIONS["the list: 50 of them, those that fail first"])[1]["receivers"][0]
            waiting = ask(admin, QUESTIONS["the story of one that fails"])[1]["waiting"]
            if first["failing_since"] is None or waiting != 5:
                raise RuntimeError(f"{waiting} events wait, not 5; the first of the list: {first}")
            rss = memory_mib(relay.pid, "VmHWM")
    empty(rig)
    return [*(figure(what, "ms", values, TARGET) for what, values in took.items()),
            figure("peak resident memory of the relay", "MiB", [rss], "<= 150")]
