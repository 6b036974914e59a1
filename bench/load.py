"""Fills the outbox quickly: many events to a transaction, several connections."""

from concurrent.futures import ThreadPoolExecutor

import psycopg2

from rig import KEYS, PAYLOAD_BYTES, TOPICS

N_CONNECTIONS = 3
BYTES_PER_TRANSACTION = 16 << 20
EVENTS_PER_TRANSACTION = 50_000


def load(rig, n_events, payload_bytes=PAYLOAD_BYTES, first=0):
    """Events with the numbers from `first` on; what was there before stays."""
    per_transaction = max(1, min(EVENTS_PER_TRANSACTION, BYTES_PER_TRANSACTION // payload_bytes))

    def insert(first_number):
        connection = psycopg2.connect(rig.dsn("app"))
        with connection, connection.cursor() as cursor:
            cursor.execute("""
                INSERT INTO courier.outbox (topic, key, type, payload)
                SELECT (%s)[1 + n %% 2], 'customer-' || n %% %s, 'order',
                       (rpad('{"n": ' || n || ', "note": "', %s - 2, 'x') || '"}')::json
                FROM generate_series(%s, %s) AS n""",
                (TOPICS, KEYS, payload_bytes, first_number,
                 min(first_number + per_transaction, first + n_events) - 1))
        connection.close()

    with ThreadPoolExecutor(N_CONNECTIONS) as threads:
        list(threads.map(insert, range(first, first + n_events, per_transaction)))
    rig.sql("VACUUM (ANALYZE) courier.outbox")
    rig.sql("CHECKPOINT")


def empty(rig):
    """No events, no cursors, nothing in Redis."""
    rig.forget()
    rig.sql("TRUNCATE courier.outbox, courier.parked")
    rig.has_backlog = False
