"""What a transaction of very many events costs if the relay looks while it is open.

200,000 events to a sink that goes nowhere. Either they are a backlog of transactions of 1,000; or they
are one transaction, and an event of another one is delivered when half of them are written: then the
rest belongs to a transaction that the relay's cursor has noted as in progress. CPU of the relay's
backends for each event; and of the one transaction the time from its COMMIT to the last delivery.
"""

import time

import psycopg2

from cells.relays import Relays
from cells.scaling import (BACKLOG, ONE, SETTLED_S, WARM_UP, Meter, Nowhere, insert_events, of_backlog,
                           with_history, write)
from rig import await_true, figure, progress

WHAT = f"{BACKLOG:,} events"


def of_one_transaction(rig):
    with_history(rig)
    nowhere = Nowhere(rig, ONE)
    with Relays(rig, ONE.n_relays, nowhere.sinks, ONE.n_shards) as running:
        write(rig, WARM_UP)
        await_true(lambda: nowhere.count() >= WARM_UP, "first deliveries")
        time.sleep(SETTLED_S)
        meter = Meter(rig, running.relays)
        connection = psycopg2.connect(rig.dsn("app"))
        with connection, connection.cursor() as cursor:
            insert_events(cursor, BACKLOG // 2)
            write(rig, 1, per_transaction=1)
            await_true(lambda: nowhere.count() > WARM_UP, "delivery beside it")
            insert_events(cursor, BACKLOG // 2)
        began = time.monotonic()
        connection.close()
        await_true(lambda: nowhere.count() > WARM_UP + BACKLOG, "deliveries", interval_s=0.005)
        took_s = time.monotonic() - began
        time.sleep(SETTLED_S)
        return meter.each(BACKLOG)["backends"], took_s


def run(rig):
    many, one, took = [], [], []
    for number in range(1, rig.repeat + 1):
        progress(f"turn {number} of {rig.repeat}")
        many.append(of_backlog(rig, ONE)["backends"])
        us, s = of_one_transaction(rig)
        one.append(us)
        took.append(s)
    return [figure(f"{WHAT} of many transactions: CPU of the backends", "us each", many),
            figure(f"{WHAT} of one transaction: CPU of the backends", "us each", one),
            figure(f"{WHAT} of one transaction: CPU, to many transactions", "ratio",
                   [a / b for a, b in zip(one, many)], "<= 2"),
            figure(f"{WHAT} of one transaction: from COMMIT to the last delivery", "s", took)]
