"""What a tap costs the application that writes its table, and how fast marks are written.

Statements: single-row INSERTs into the same table without a tap, attached and captured, and into the
outbox itself, in turns, each in a transaction of its own. Shown is what a statement takes inside the
server, as the median of all of a turn.

Writers: the same in batches, over one connection each. Shown is the CPU time of the backend for each row,
with all that a client's statement and its commit cost: the machine's other work does not count in it. A
tap's price is the difference of neighbouring batches. The outbox is compared with that of a database
without taps (migrations 1 to 6), whose table lacks the two columns that name the source.

Marks: a backlog of delivered events whose rows are not marked, and a relay that begins to mark; then
deliveries at 1,000 events a second, with marks, without, and with a bare UPDATE of the same rows at the
same interval instead, which is what an application's own relay does; in turns.
"""

import contextlib
import statistics
import threading
import time

import psycopg2

from pace import Acks, await_acks, entries, percentiles, publish
from rig import PAYLOAD_BYTES, await_true, cpu_s, figure, memory_mib, progress

LONE, BULK = "one INSERT per transaction", "10,000 rows per INSERT"
ROWS = {LONE: 250, BULK: 10_000}    # of a batch: the machine's pace changes within seconds
BATCHES = {LONE: 40, BULK: 10}      # of a turn, for each table
PLAIN, ATTACHED, CAPTURED, NATIVE, FORMER = "plain", "attached", "captured", "outbox", "outbox without taps"
OF_STATEMENT, OF_BULK, OF_NATIVE = "<= 35", "<= 6", "<= 1.02"
STATEMENTS = 3000  # of a turn, for each table
MARKED_ROWS = 200_000
MARKS, BARE_UPDATES, NO_MARKS = "with marks", "bare UPDATEs", "no marks"
MARK_INTERVAL_S = 0.2  # marks.interval
PACE, PACE_S, PACE_CONNECTIONS = 1000, 4, 2
STREAM = "events:pace"

TABLE = """
    CREATE TABLE public.%s (
      id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text, aggregate_id text, event_type text,
      payload jsonb, headers jsonb, dedup_key text UNIQUE, created_at timestamptz DEFAULT now(),
      published_at timestamptz, attempt smallint DEFAULT 0)"""
INTO_TABLE = """INSERT INTO public.%s (aggregate_type, aggregate_id, event_type, payload, dedup_key)
    SELECT 'order', 'customer-' || n %% 1000, 'orders.created', $1::jsonb, gen_random_uuid()::text
    FROM generate_series(1, $2) AS n"""
INTO_OUTBOX = """INSERT INTO courier.outbox (topic, key, type, payload)
    SELECT 'orders.created', 'customer-' || n %% 1000, 'orders.created', $1::json FROM generate_series(1, $2) AS n"""
# What the publisher runs: $1 is the event's number, $2 its payload.
PACED_INSERT = f"""INSERT INTO public.{ATTACHED} (aggregate_type, aggregate_id, event_type, payload, dedup_key)
    VALUES ('order', 'customer-' || $1::bigint % 1000, 'order', $2::json::jsonb, gen_random_uuid()::text)"""
PAYLOAD = '{"note": "' + "x" * (PAYLOAD_BYTES - 12) + '"}'


# One statement of each kind in turns; what each took goes to a table.
LOOP = """
    CREATE TABLE public.took (name text, us double precision);
    CREATE PROCEDURE public.insert_in_turns(n integer, body jsonb) LANGUAGE plpgsql AS $loop$
    DECLARE
      began timestamptz;
      one   text;
    BEGIN
      FOR i IN 1 .. n LOOP
        FOREACH one IN ARRAY '{plain,attached,captured,outbox}'::text[] LOOP
          began := clock_timestamp();
          CASE one
            WHEN 'plain' THEN %s
            WHEN 'attached' THEN %s
            WHEN 'captured' THEN %s
            ELSE INSERT INTO courier.outbox (topic, key, type, payload)
                 VALUES ('orders.created', 'customer-17', 'orders.created', body::json);
          END CASE;
          INSERT INTO public.took VALUES (one, extract(epoch FROM clock_timestamp() - began) * 1000000);
          COMMIT;
        END LOOP;
      END LOOP;
    END
    $loop$"""
LOOP_INSERT = """INSERT INTO public.%s (aggregate_type, aggregate_id, event_type, payload, dedup_key)
                 VALUES ('order', 'customer-17', 'orders.created', body, gen_random_uuid()::text);"""


class Writer:
    def __init__(self, rig, statement):
        self.connection = psycopg2.connect(rig.dsn("postgres"))
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.cursor.execute("SET synchronous_commit = off")
        self.cursor.execute(f"PREPARE write (text, integer) AS {statement}".replace("%%", "%"))
        self.pid = self.connection.get_backend_pid()

    def cpu_us(self, how):
        """Microseconds of a row."""
        before = cpu_s(self.pid)
        rows = 1 if how == LONE else ROWS[how]
        for _ in range(ROWS[how] // rows):
            self.cursor.execute("EXECUTE write (%s, %s)", (PAYLOAD, rows))
        return (cpu_s(self.pid) - before) * 1e6 / ROWS[how]


class Memory:
    """The most memory of its own that a process has while the block runs, in MiB."""

    def __init__(self, pid):
        self.pid, self.most, self.is_over = pid, 0.0, threading.Event()

    def watch(self):
        while not self.is_over.is_set():
            self.most = max(self.most, memory_mib(self.pid, "RssAnon"))
            time.sleep(0.01)

    def __enter__(self):
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def make_tables(rig):
    for table in (PLAIN, ATTACHED, CAPTURED):
        rig.sql(TABLE % table)
    rig.sql("SELECT courier.attach('public.attached', done => 'keep')")
    rig.sql("SELECT courier.capture('public.captured', columns => '{*}')")


def drop_tables(rig):
    for tap in (ATTACHED, CAPTURED):
        rig.sql(f"SELECT courier.detach('{tap}')")
    rig.sql(f"DROP TABLE public.{PLAIN}, public.{ATTACHED}, public.{CAPTURED}")


def run_statements(rig):
    rig.sql(LOOP % tuple(LOOP_INSERT % name for name in (PLAIN, ATTACHED, CAPTURED)))
    taken = {name: [] for name in (PLAIN, ATTACHED, CAPTURED, NATIVE)}
    for turn in range(1, rig.repeat + 1):
        progress(f"turn {turn} of {rig.repeat}: statements")
        rig.sql(f"TRUNCATE courier.outbox, public.{PLAIN}, public.{ATTACHED}, public.{CAPTURED}, public.took")
        rig.sql("SET synchronous_commit = off")
        rig.sql(f"CALL public.insert_in_turns({STATEMENTS}, '{PAYLOAD}')")
        rig.sql("RESET synchronous_commit")
        for name, us in rig.sql("SELECT name, percentile_cont(0.5) WITHIN GROUP (ORDER BY us) FROM public.took GROUP BY name"):
            taken[name].append(us)
    rig.sql("DROP PROCEDURE public.insert_in_turns(integer, jsonb)")
    rig.sql("DROP TABLE public.took")
    return [figure(f"one row per INSERT, {name}: the statement", "us", times) for name, times in taken.items()] + [
        figure(f"one row per INSERT: a tap adds, {name}", "us", [a - b for a, b in zip(taken[name], taken[PLAIN])], OF_STATEMENT)
        for name in (ATTACHED, CAPTURED)]


def measure_writers(writers, how):
    spent = {name: [] for name in writers}
    for batch in range(BATCHES[how]):
        for name in sorted(writers, reverse=batch % 2 == 1):
            spent[name].append(writers[name].cpu_us(how))
    return {
        "cpu": {name: statistics.median(times) for name, times in spent.items()},
        "tax": {name: statistics.median(a - b for a, b in zip(spent[name], spent[PLAIN]))
                for name in (ATTACHED, CAPTURED)},
        "ratio": statistics.median(a / b for a, b in zip(spent[NATIVE], spent[FORMER]))}


def run_writers(rig):
    former = rig.new_database("attach_former", before=7)
    results = {how: [] for how in ROWS}
    for turn in range(1, rig.repeat + 1):
        for how, turns in results.items():
            progress(f"turn {turn} of {rig.repeat}: {how}")
            rig.sql(f"TRUNCATE courier.outbox, public.{PLAIN}, public.{ATTACHED}, public.{CAPTURED}")
            former.sql("TRUNCATE courier.outbox")
            rig.sql("CHECKPOINT")
            writers = {name: Writer(rig, INTO_TABLE % name) for name in (PLAIN, ATTACHED, CAPTURED)}
            writers |= {NATIVE: Writer(rig, INTO_OUTBOX), FORMER: Writer(former, INTO_OUTBOX)}
            for writer in writers.values():
                writer.cpu_us(how)  # what is only done once, is done
            turns.append(measure_writers(writers, how))
            for writer in writers.values():
                writer.connection.close()
    lines = []
    for how, turns in results.items():
        target = OF_BULK if how == BULK else None
        lines += [figure(f"{how}, {name}: CPU of the backend", "us each", [turn["cpu"][name] for turn in turns])
                  for name in (PLAIN, ATTACHED, CAPTURED, NATIVE)]
        lines += [figure(f"{how}: a tap adds, {name}", "us each", [turn["tax"][name] for turn in turns], target)
                  for name in (ATTACHED, CAPTURED)]
        lines.append(figure(f"{how}: outbox, to that without taps", "ratio", [turn["ratio"] for turn in turns], OF_NATIVE))
    rig.drop_database(former)
    return lines


def run_memory(rig):
    """A COPY of many rows into a captured table."""
    progress(f"COPY of {rig.events:,} rows into a captured table")
    rig.sql(f"TRUNCATE courier.outbox, public.{CAPTURED}")
    writer = Writer(rig, INTO_TABLE % CAPTURED)
    before = memory_mib(writer.pid, "RssAnon")
    with Memory(writer.pid) as memory:
        writer.cursor.copy_expert(f"COPY public.{CAPTURED} (aggregate_type, aggregate_id, event_type, payload) FROM STDIN",
                                  Lines(rig.events))
    writer.connection.close()
    if rig.sql("SELECT count(*) FROM courier.outbox")[0][0] != rig.events:
        raise RuntimeError("events are missing")
    return [figure(f"COPY of {rig.events:,} rows, captured: memory of the backend grows by", "MiB",
                   [memory.most - before], "< 64")]


class Lines:
    """So many rows for COPY, made as they are read."""

    def __init__(self, n):
        self.left = n

    def read(self, _=None):
        n, self.left = min(self.left, 1000), max(0, self.left - 1000)
        return f"order\tcustomer-{self.left % 1000}\torders.created\t{PAYLOAD}\n" * n


def relay(rig, has_marks, environment=None):
    return rig.relay("attach", [rig.redis_sink("pace", options="start: beginning,")], environment=environment,
                     settings=f"marks: {{ enabled: {str(has_marks).lower()} }}\n")


def is_marked(rig):
    return not rig.sql(f"SELECT EXISTS (SELECT FROM public.{ATTACHED} WHERE published_at IS NULL)")[0][0]


def attach_with_marks(rig):
    rig.forget()
    if rig.sql("SELECT EXISTS (SELECT FROM courier.attachment)")[0][0]:
        rig.sql(f"SELECT courier.detach('{ATTACHED}')")
    rig.sql(f"DROP TABLE IF EXISTS public.{ATTACHED}")
    rig.sql("TRUNCATE courier.outbox")
    rig.sql(TABLE % ATTACHED)
    rig.sql(f"GRANT INSERT ON public.{ATTACHED} TO app")
    rig.sql(f"SELECT courier.attach('public.{ATTACHED}', topic => $$'pace'$$)")


def measure_marks(rig):
    """Rows that are marked a second: their events are delivered already."""
    attach_with_marks(rig)
    rig.sql(f"PREPARE fill (text, integer) AS {INTO_TABLE % ATTACHED}".replace("%%", "%"))
    rig.sql(f"EXECUTE fill ('{PAYLOAD}', {MARKED_ROWS})")
    rig.sql("DEALLOCATE fill")
    rig.sql(f"VACUUM (ANALYZE) public.{ATTACHED}, courier.outbox")
    with relay(rig, has_marks=False) as program:
        await_true(lambda: program.is_alive() and rig.redis.xlen(STREAM) == MARKED_ROWS, "deliveries")
    with relay(rig, has_marks=True) as program:
        began = time.monotonic()
        await_true(lambda: program.is_alive() and is_marked(rig), "marks")
        return MARKED_ROWS / (time.monotonic() - began)


class BareUpdates:
    """Marks the newest rows by their primary keys as long as the block runs; it asks for nothing else."""

    def __init__(self, rig):
        self.connection = psycopg2.connect(rig.dsn("postgres"))
        self.connection.autocommit = True
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.mark)

    def mark(self):
        last_id = 0
        with self.connection.cursor() as cursor:
            cursor.execute("SET synchronous_commit = off; SET enable_seqscan = off")
            while not self.is_over.wait(MARK_INTERVAL_S):
                cursor.execute("SELECT array_agg(event_id), max(id) FROM courier.outbox WHERE id > %s", (last_id,))
                ids, newest = cursor.fetchone()
                if newest is not None:
                    cursor.execute(f"UPDATE public.{ATTACHED} SET published_at = now() WHERE id = ANY (%s::uuid[])", (ids,))
                    last_id = newest

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        self.connection.close()


def measure_latency(rig, marks):
    """From COMMIT's return to the acknowledgement, of rows of an attached table."""
    attach_with_marks(rig)
    acks = Acks(rig, "attach")
    with relay(rig, marks == MARKS, acks.environment) as program:
        with BareUpdates(rig) if marks == BARE_UPDATES else contextlib.nullcontext():
            committed = publish(rig, "app", PACED_INSERT, PACE, PACE_S * rig.longer, PACE_CONNECTIONS)
        await_acks(program, acks, len(committed))
    times_us = acks.times_us()
    acks.close()
    return percentiles([(times_us[entry_id] - committed[number][1]) / 1000
                        for entry_id, number in entries(rig, STREAM)])


def run_marks(rig):
    rates, latencies = [], {MARKS: [], BARE_UPDATES: [], NO_MARKS: []}
    for turn in range(1, rig.repeat + 1):
        progress(f"turn {turn} of {rig.repeat}: marks")
        rates.append(measure_marks(rig))
        for marks in sorted(latencies, reverse=turn % 2 == 1):
            latencies[marks].append(measure_latency(rig, marks))
    lines = [figure(f"marks of {MARKED_ROWS:,} rows", "per s", rates, ">= 20,000")]
    for name in ("p50", "p99"):
        lines += [figure(f"{PACE:,}/s through a tap, {marks}: {name}", "ms", [turn[name] for turn in turns])
                  for marks, turns in latencies.items()]
    return lines


def run(rig):
    make_tables(rig)
    lines = run_statements(rig) + run_writers(rig) + run_memory(rig)
    drop_tables(rig)
    lines += run_marks(rig)
    rig.sql(f"SELECT courier.detach('{ATTACHED}')")
    rig.sql(f"DROP TABLE public.{ATTACHED}")
    rig.forget()
    rig.sql("TRUNCATE courier.outbox")
    return lines
