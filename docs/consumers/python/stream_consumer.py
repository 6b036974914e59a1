"""Books the orders of a Redis stream: each order once, however often its event comes.

The events are those of a pgcourier sink of kind redis. Any number of these may run: they are the
workers of one consumer group. SIGTERM ends it after the event at hand.

Needs Python 3.9, psycopg 3 and redis: pip install -r requirements.txt. Run: python3 stream_consumer.py
Environment: REDIS_URL, DATABASE_URL, STREAM (events:orders.created), WORKER (the host's name),
CLAIM_AFTER_MS (60000)
"""

import json
import os
import signal
import socket

import psycopg
import redis

STREAM = os.environ.get("STREAM", "events:orders.created")
CONSUMER = "billing"  # the group's name, and the consumer's in the inbox
WORKER = os.environ.get("WORKER", socket.gethostname())  # another one for each process
CLAIM_AFTER_MS = int(os.environ.get("CLAIM_AFTER_MS", "60000"))  # longer than an event takes

stopping = False


def stop(*_):
    global stopping
    stopping = True


def book(database, event):
    """The change. It need not be idempotent."""
    order = json.loads(event["payload"])
    database.execute("INSERT INTO booking (order_id, cents) VALUES (%s, %s)", (order["order"], order["cents"]))


def process(database, event):
    """Accepts the event and makes the change in one transaction: both, or neither."""
    with database.transaction():
        accepted = database.execute("SELECT courier_inbox.accept(%s, %s)", (CONSUMER, event["id"])).fetchone()[0]
        if accepted:
            book(database, event)
        else:
            print("came again:", event["id"], flush=True)


def make_group(stream):
    try:
        stream.xgroup_create(STREAM, CONSUMER, id="0", mkstream=True)
    except redis.ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):  # it exists
            raise


def next_entries(stream):
    """What some worker took long ago and has not acknowledged; or else what is new."""
    left = stream.xautoclaim(STREAM, CONSUMER, WORKER, min_idle_time=CLAIM_AFTER_MS, start_id="0-0", count=100)[1]
    if left:
        return left
    new = stream.xreadgroup(CONSUMER, WORKER, {STREAM: ">"}, count=100, block=1000)
    return new[0][1] if new else []


def main():
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    stream = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost"), decode_responses=True)
    make_group(stream)
    with psycopg.connect(os.environ.get("DATABASE_URL", ""), autocommit=True) as database:
        while not stopping:
            for entry_id, event in next_entries(stream):
                if stopping:
                    break  # the rest is claimed by another worker, or by the next start
                try:
                    process(database, event)
                except Exception as error:
                    if database.closed:
                        raise  # and end: systemd or the like starts it again
                    print(f"{event.get('id')} comes again later: {error}", flush=True)
                    continue
                stream.xack(STREAM, CONSUMER, entry_id)  # after the commit, never before


if __name__ == "__main__":
    main()
