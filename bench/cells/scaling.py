"""What one event costs each part, as docs/scaling.md counts with it: CPU of PostgreSQL and of the relay, WAL,
disk, connections.

Publishing: over one connection, in three ways. Delivering: to the sink that goes nowhere, a backlog that was
written while the sinks were paused, so that pages are full, and events at a steady pace, so that pages are small; with one shard
and more, two sinks, two and four relays. Then a backlog to each kind of sink. CPU is the kernel's account of
the processes, so the machine's other work counts little. The relays run and have delivered something before
a measurement begins: their start costs it nothing.
"""

import os
import socketserver
import statistics
import subprocess
import threading
import time
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import psycopg2

from brokers import brokers
from cells.attach import ATTACHED, attach_with_marks
from cells.partitions import LONE, PAYLOAD, ROWS, Writer
from cells.relays import Relays
from load import empty, load
from pace import OUR_INSERT, publish
from rig import KEYS, PAYLOAD_BYTES, PER_TRANSACTION, TOPICS, await_true, cpu_s, figure, progress, transactions
from strategies import NullCount

HISTORY = 50_000  # events that are there already, vacuumed: PostgreSQL plans a page by what it knows of the outbox
SETTLED_S = 0.1  # after the last delivery, for what is settled later
WARM_UP = 2_000


def wal_bytes(rig):
    return float(rig.sql("SELECT pg_current_wal_insert_lsn() - '0/0'")[0][0])


# ---- publishing ---------------------------------------------------------------------------------

ADDED = "an INSERT more in a transaction"
EVENTS = {LONE: 250, ADDED: 250, ROWS: 5000}  # of a batch
BATCHES = 16
PURCHASE = """
    CREATE TABLE public.purchase (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer integer NOT NULL, amount integer NOT NULL);
    GRANT INSERT ON public.purchase TO app"""


def write_purchases(writer, n, events):
    for number in range(n):
        writer.cursor.execute("BEGIN")
        writer.cursor.execute("EXECUTE purchase (%s)", (number,))
        if events:
            writer.cursor.execute("EXECUTE lone (%s, %s, %s)", (TOPICS[0], f"customer-{number}", PAYLOAD))
        writer.cursor.execute("COMMIT")


def spent(rig, writer, write, *arguments):
    before = cpu_s(writer.pid), wal_bytes(rig)
    write(*arguments)
    return cpu_s(writer.pid) - before[0], wal_bytes(rig) - before[1]


def batch_of(rig, writer, how):
    """CPU microseconds and bytes of WAL for each event."""
    if how == ADDED:
        with_event, without = (spent(rig, writer, write_purchases, writer, EVENTS[how], events)
                               for events in (True, False))
        cost = [more - less for more, less in zip(with_event, without)]
    else:
        cost = spent(rig, writer, writer.write, how, EVENTS[how])
    return {"cpu_us": cost[0] * 1e6 / EVENTS[how], "wal": cost[1] / EVENTS[how]}


def publishing(rig):
    outbox, results = rig.new_database("scaling"), {how: [] for how in EVENTS}
    outbox.sql(PURCHASE)
    for turn in range(1, rig.repeat + 1):
        for how, turns in results.items():
            progress(f"turn {turn} of {rig.repeat}: publishing, {how}")
            writer = Writer(outbox)
            writer.cursor.execute("SET synchronous_commit = on")
            writer.cursor.execute("PREPARE purchase (integer) AS"
                                  " INSERT INTO public.purchase (customer, amount) VALUES ($1, 17)")
            batch_of(outbox, writer, how)  # what is only done once, is done
            batches = [batch_of(outbox, writer, how) for _ in range(BATCHES)]
            turns.append({name: statistics.median(one[name] for one in batches) for name in batches[0]})
            writer.connection.close()
    rig.drop_database(outbox)
    return [line for how, turns in results.items() for line in (
        figure(f"publishing, {how}: CPU of the backend", "us each", [turn["cpu_us"] for turn in turns]),
        figure(f"publishing, {how}: WAL", "bytes each", [turn["wal"] for turn in turns]))]


# ---- delivering ---------------------------------------------------------------------------------

class Shape(NamedTuple):
    name: str
    n_shards: int = 1
    n_sinks: int = 1
    n_relays: int = 1


class Pace(NamedTuple):
    name: str
    rows: int  # of a transaction
    per_s: int  # transactions a second


ONE, MANY, TWO_SINKS = Shape("1 shard"), Shape("64 shards", 64), Shape("2 sinks", 1, 2)
FOUR_RELAYS = Shape("64 shards, 4 relays", 64, 1, 4)
SHAPES = [ONE, Shape("8 shards", 8), MANY, TWO_SINKS, Shape("64 shards, 2 relays", 64, 1, 2), FOUR_RELAYS]
BACKLOG = 200_000
PACES = {Pace("1,000/s", 1, 1_000): SHAPES, Pace("10,000/s in tens", 10, 1_000): [ONE, MANY, FOUR_RELAYS]}
SKIPPING = Shape("2 shards, 2 relays", 2, 1, 2)
PACE_S, CONNECTIONS = 3, 2
NOBODY = Shape("no relay", 0, 0, 0)


class Meter:
    """What relays and their backends have used, and the WAL, since it was made."""

    def __init__(self, rig, relays):
        self.rig = rig
        self.relays = [relay.pid for relay in relays]
        self.backends = [pid for relay in relays for pid in rig.backends(relay.name)]
        self.before = self.read()

    def read(self):
        return {"relay": sum(map(cpu_s, self.relays)) * 1e6, "backends": sum(map(cpu_s, self.backends)) * 1e6,
                "wal": wal_bytes(self.rig)}

    def each(self, n):
        return {name: (value - self.before[name]) / n for name, value in self.read().items()}


class Nowhere:
    """Sinks that go nowhere, and how many events they have been given."""

    def __init__(self, rig, shape):
        self.counts = [NullCount(rig, f"null_{number}") for number in range(shape.n_sinks)]
        self.names = [f"nowhere-{number}" for number in range(shape.n_sinks)]
        self.sinks = ["{ name: %s, topics: ['**'], shards: %d, %s }" % (name, shape.n_shards, count.block())
                      for name, count in zip(self.names, self.counts)]

    def count(self):
        return sum(count.read()[0] for count in self.counts)


def insert_events(cursor, n_events, payload=None, keys=None):
    keys = keys or [f"customer-{n}" for n in range(KEYS)]
    cursor.execute("""
        INSERT INTO courier.outbox (topic, key, type, payload)
        SELECT (%s)[1 + n %% 2], (%s)[1 + n %% %s], 'order', %s::json FROM generate_series(1, %s) AS n""",
        (TOPICS, keys, len(keys), payload or PAYLOAD, n_events))


def write(rig, n_events, payload=None, keys=None, per_transaction=PER_TRANSACTION):
    connection = psycopg2.connect(rig.dsn("app"))
    for _ in range(0, n_events, per_transaction):
        with connection, connection.cursor() as cursor:
            insert_events(cursor, per_transaction, payload, keys)
    connection.close()


def pause(rig, command, sinks):
    for sink in sinks:
        subprocess.run([f"{rig.folder}/pgcourier", command, sink, "--dsn", rig.dsn("pgcourier")], check=True,
                       stdout=subprocess.DEVNULL)


def drained(rig, relays, sinks, count, n_events, payload=None):
    """A backlog that was written while the sinks were paused: what was used for each event and sink, from
    `resume` to the last delivery."""
    n_first, n_deliveries = WARM_UP * len(sinks), n_events * len(sinks)
    write(rig, WARM_UP, payload)
    await_true(lambda: count() >= n_first, "first deliveries")
    pause(rig, "pause", sinks)
    time.sleep(SETTLED_S)
    write(rig, n_events, payload)
    meter = Meter(rig, relays)
    pause(rig, "resume", sinks)
    await_true(lambda: count() >= n_first + n_deliveries, "deliveries", interval_s=0.005)
    time.sleep(SETTLED_S)
    return meter.each(n_deliveries)


def with_history(rig):
    empty(rig)
    load(rig, HISTORY)


def of_backlog(rig, shape):
    with_history(rig)
    nowhere = Nowhere(rig, shape)
    with Relays(rig, shape.n_relays, nowhere.sinks, shape.n_shards * shape.n_sinks) as running:
        result = drained(rig, running.relays, nowhere.names, nowhere.count, BACKLOG)
    result["disk"] = float(rig.sql("SELECT sum(pg_total_relation_size(relid))"
                                   " FROM pg_partition_tree('courier.outbox')")[0][0]) / (HISTORY + WARM_UP + BACKLOG)
    return result


def of_skipping(rig):
    """CPU of a backend for each event that its relay does not get, because another relay has its shard."""
    with_history(rig)
    nowhere = Nowhere(rig, SKIPPING)
    keys = [key for key, in rig.sql("SELECT 'key-' || n FROM generate_series(1, %s) AS n"
                                    " WHERE courier.shard_of('key-' || n, 2, 0) = 0", 2 * KEYS)]
    with Relays(rig, SKIPPING.n_relays, nowhere.sinks, SKIPPING.n_shards) as running:
        write(rig, WARM_UP)
        await_true(lambda: nowhere.count() >= WARM_UP, "first deliveries")
        time.sleep(SETTLED_S)
        # In one transaction, so that the relays hear of it once, when all is there.
        meters = [Meter(rig, [relay]) for relay in running.relays]
        write(rig, BACKLOG, keys=keys, per_transaction=BACKLOG)
        await_true(lambda: nowhere.count() >= WARM_UP + BACKLOG, "deliveries", interval_s=0.005)
        time.sleep(SETTLED_S)
        return min(meter.each(BACKLOG)["backends"] for meter in meters)


def insert_of(pace):
    if pace.rows == 1:
        return OUR_INSERT
    return ("INSERT INTO courier.outbox (topic, key, type, payload)"
            f" SELECT 'pace', 'customer-' || ($1::bigint * {pace.rows} + n) % 1000, 'order', $2::json"
            f" FROM generate_series(1, {pace.rows}) AS n")


def of_pace(rig, shape, pace):
    """For each event and sink; of NOBODY the WAL of those who publish."""
    with_history(rig)
    nowhere, insert, seconds = Nowhere(rig, shape), insert_of(pace), PACE_S * rig.longer
    watcher = rig.watcher()
    began = transactions(watcher)
    running = (Relays(rig, shape.n_relays, nowhere.sinks, shape.n_shards * shape.n_sinks) if shape.n_relays
               else nullcontext())
    with running:
        relays = running.relays if shape.n_relays else []
        n_first = len(publish(rig, "app", insert, 200, 0.25, 1)) * pace.rows * shape.n_sinks
        await_true(lambda: nowhere.count() >= n_first, "first deliveries")
        meter = Meter(rig, relays)
        n_events = len(publish(rig, "app", insert, pace.per_s, seconds, CONNECTIONS)) * pace.rows
        n_deliveries = n_events * max(1, shape.n_sinks)
        await_true(lambda: nowhere.count() >= n_first + n_events * shape.n_sinks, "deliveries", interval_s=0.005)
        time.sleep(SETTLED_S)
        result = meter.each(n_deliveries)
    await_true(lambda: not rig.sql("SELECT FROM pg_stat_activity WHERE application_name LIKE 'relay-%%'"),
               "end of the backends")  # which then have handed in their counts
    # Of those who publish a transaction each, and the few of their warm-ups.
    result["statements"] = (transactions(watcher) - began - n_events / pace.rows) / n_deliveries
    watcher.connection.close()
    return result


COSTS = [("backends", "CPU of the backends", "us each"), ("relay", "CPU of the relay", "us each"),
         ("wal", "WAL", "bytes each"), ("statements", "statements", "each")]


def lines(what, turns, costs=COSTS):
    return [figure(f"{what}: {name}", unit, [turn[key] for turn in turns])
            for key, name, unit in costs if key in turns[0]]


def delivering(rig):
    backlogs = {shape: [] for shape in SHAPES}
    paces = {(pace, shape): [] for pace, shapes in PACES.items() for shape in [NOBODY, *shapes]}
    skipping = []
    for turn in range(1, rig.repeat + 1):
        for shape in SHAPES if turn % 2 else reversed(SHAPES):
            progress(f"turn {turn} of {rig.repeat}: a backlog, {shape.name}")
            backlogs[shape].append(of_backlog(rig, shape))
        skipping.append(of_skipping(rig))
        for pace, shape in paces if turn % 2 else reversed(paces):
            progress(f"turn {turn} of {rig.repeat}: {pace.name}, {shape.name}")
            paces[pace, shape].append(of_pace(rig, shape, pace))
    for (pace, shape), turns in paces.items():
        if shape is not NOBODY:
            for turn, without in zip(turns, paces[pace, NOBODY]):
                turn["wal"] -= without["wal"] / max(1, shape.n_sinks)
    figures = [figure("an event in the outbox", "bytes", [turn["disk"] for turn in backlogs[ONE]])]
    for shape, turns in backlogs.items():
        figures += lines(f"backlog, {shape.name}", turns)
    figures.append(figure("backlog, an event of another relay's shard: CPU of the backends", "us each", skipping))
    for (pace, shape), turns in paces.items():
        if shape is not NOBODY:
            figures += lines(f"{pace.name}, {shape.name}", turns)
    return figures


# ---- kinds of sinks -----------------------------------------------------------------------------

MAIL = '{"to": "customer@example.org", "subject": "order", "text": "%s"}' % ("x" * (PAYLOAD_BYTES - 64))


class Mailbox(socketserver.ThreadingTCPServer):
    """A mail server that takes everything at once."""

    daemon_threads = True
    request_queue_size = 64

    class Session(socketserver.StreamRequestHandler):
        ANSWERS = {b"EHLO": b"250 there", b"MAIL": b"250 ok", b"RCPT": b"250 ok", b"RSET": b"250 ok",
                   b"DATA": b"354 go on", b"QUIT": b"221 bye"}

        def handle(self):
            self.wfile.write(b"220 there\r\n")
            for line in self.rfile:
                verb = line[:4].upper()
                self.wfile.write(self.ANSWERS[verb] + b"\r\n")
                if verb == b"QUIT":
                    return
                if verb == b"DATA":
                    while self.rfile.readline() != b".\r\n":
                        continue
                    self.server.taken()
                    self.wfile.write(b"250 ok\r\n")

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Session)
        self.n_taken, self.lock = 0, threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def taken(self):
        with self.lock:
            self.n_taken += 1


@contextmanager
def to_redis(rig):
    yield f'redis: {{ url: "unix://{rig.folder}/redis.sock" }}', rig.stream_lengths, {}


@contextmanager
def to_http(rig):
    with rig.receiver() as receiver:
        yield f'concurrency: 256, http: {{ url: "http://127.0.0.1:{receiver.port}/1" }}', receiver.count, {}


@contextmanager
def to_stdout(rig):
    path = f"{rig.folder}/lines"
    with open(path, "wb") as file, open(path, "rb") as reader:
        n = 0

        def count():
            nonlocal n
            n += sum(piece.count(b"\n") for piece in iter(lambda: reader.read(1 << 20), b""))
            return n

        yield "stdout: {}", count, {"stdout": file}
    os.remove(path)


@contextmanager
def to_email(_):
    with Mailbox() as mailbox:
        yield (f'email: {{ url: "smtp://127.0.0.1:{mailbox.server_address[1]}", tls: none,'
               ' from: "shop@example.org" }', lambda: mailbox.n_taken, {})
        mailbox.shutdown()


def to_broker(broker):
    @contextmanager
    def to(_):
        broker.reset()
        yield broker.block(), broker.count, {}
    return to


def kinds(rig):
    of_all = {"stdout": (to_stdout, 100_000, None), "redis": (to_redis, 100_000, None),
              "http": (to_http, 40_000, None), "email": (to_email, 2_000, MAIL)}
    for broker, n_events in zip(brokers(rig), (50_000, 20_000, 50_000)):
        of_all[broker.name] = (to_broker(broker), n_events, None)
    results = {kind: [] for kind in of_all}
    for turn in range(1, rig.repeat + 1):
        for kind, (to, n_events, payload) in of_all.items():
            progress(f"turn {turn} of {rig.repeat}: a backlog to {kind}")
            with_history(rig)
            with to(rig) as (block, count, options):
                with rig.relay("relay-0", ["{ name: kind, topics: ['**'], %s }" % block], **options) as relay:
                    results[kind].append(drained(rig, [relay], ["kind"], count, n_events, payload))
    return [line for kind, turns in results.items() for line in lines(f"backlog to {kind}", turns, COSTS[1:2])]


# ---- connections --------------------------------------------------------------------------------

def connections(rig):
    """How many a relay has that rests."""
    redis = [rig.redis_sink(f"sink-{number}") for number in range(8)]
    admin = f'admin: {{ listen: "unix:{rig.folder}/admin.sock" }}\n'
    cases = {"1 sink": (redis[:1], "", 1), "8 sinks": (redis, "", 8),
             "1 sink, 64 shards": ([rig.redis_sink("sink", "shards: 64,")], "", 64),
             "1 sink, admin": (redis[:1], admin, 1), "1 sink, marks": (redis[:1], "", 1)}
    figures = []
    for name, (sinks, settings, n_lanes) in cases.items():
        progress(f"connections: {name}")
        empty(rig)
        if "marks" in name:
            attach_with_marks(rig)
        with rig.relay("relay-0", sinks, settings=settings, n_lanes=n_lanes):
            time.sleep(1)
            figures.append(figure(f"connections to PostgreSQL: {name}", "", rig.sql(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'relay-0'")[0]))
    rig.sql(f"SELECT courier.detach('{ATTACHED}')")
    rig.sql(f"DROP TABLE public.{ATTACHED}")
    return figures


def run(rig):
    result = publishing(rig) + delivering(rig) + kinds(rig) + connections(rig)
    empty(rig)
    return result
