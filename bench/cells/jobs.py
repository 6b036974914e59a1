"""Jobs, which are functions that pgcourier calls (`postgres: call`), and tables that it fills (`insert`).

A backlog to an empty function, one and eight calls at a time, beside graphile-worker and pg-boss with a task
that does nothing: jobs a second, and the CPU time of the database and of the program for each. Then
the time from COMMIT to the effect, which the function notes. Then events of as many keys into a table of
another database, beside a bare client that copies the same rows, and accepts their ids in the inbox. Rates
begin when a quarter is done.
"""

import io
import os
import subprocess
import time
from contextlib import contextmanager

import psycopg2

from load import empty
from pace import percentiles, publish
from peers.graphile_worker import GraphileWorker
from peers.peer import JOBS, JOBS_IN_BATCHES, NOTHING
from peers.pg_boss import PgBoss
from progress import progress
from rig import PAYLOAD_BYTES, await_true, cpu_s, figure, not_measured, process_cpu_s

N_CALLS = {8: 40_000, 1: 15_000}  # of a turn, by how many at a time
TARGETS = {8: ">= 8,000", 1: ">= 2,500"}
N_INSERTED, BATCH = 200_000, 1_000
INTO_A_TABLE = {"by default": "", "four batches in flight": f"max_in_flight: {4 * BATCH},"}
BARE = "by a bare COPY and accept_many()"
PER_S, PACE_S, WARM_UP_S = 200, 5, 1
SETTLE_S = 1  # after the last job, until all is accounted for: some complete later
LOOK_EVERY_S = 0.01

FUNCTIONS = """
    CREATE SCHEMA app;
    CREATE FUNCTION app.nothing(event courier.event) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
    CREATE TABLE app.effect (n bigint NOT NULL, event_id uuid NOT NULL, at timestamptz NOT NULL);
    CREATE FUNCTION app.note(event courier.event) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO app.effect VALUES ((event.payload->>'n')::bigint, event.id, clock_timestamp());
    END $$;
    GRANT USAGE ON SCHEMA app TO pgcourier;
    GRANT INSERT ON app.effect TO pgcourier;
    GRANT courier_consumer TO pgcourier"""
TABLE = """
    CREATE SCHEMA app;
    CREATE TABLE app.events (event_id uuid NOT NULL, topic text NOT NULL, key text, type text,
                             payload json, headers jsonb, created_at timestamptz NOT NULL);
    GRANT USAGE ON SCHEMA app TO pgcourier;
    GRANT INSERT ON app.events TO pgcourier"""
ROWS = "SELECT event_id, topic, key, type, payload::text, headers::text, created_at::text FROM courier.outbox ORDER BY id"


# ---- what is measured with -------------------------------------------------------------------------

def inbox(rig):
    subprocess.run([f"{rig.folder}/pgcourier", "migrate", "--inbox", "--dsn", rig.dsn("postgres")],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def fill(rig, n_events):
    """Events of as many keys."""
    empty(rig)
    for first in range(0, n_events, 10_000):
        rig.sql("""
            INSERT INTO courier.outbox (topic, key, type, payload)
            SELECT 'jobs', 'customer-' || n, 'order',
                   (rpad('{"n": ' || n || ', "note": "', %s - 2, 'x') || '"}')::json
            FROM generate_series(%s, %s) AS n""",
            PAYLOAD_BYTES, first, min(first + 10_000, n_events) - 1)


def settled(rig, first_id):
    """How many events of a backlog that begins with that id the relay has settled."""
    return lambda: rig.sql("""
        SELECT greatest(coalesce(max(CASE WHEN until_floor IS NULL THEN from_floor ELSE last_id END), 0) - %s + 1, 0)
        FROM courier.cursor""", first_id)[0][0]


def backends(rig):
    """CPU seconds of all that are connected to the server but this."""
    return sum(cpu_s(pid) for pid, in rig.sql(
        "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"))


def meter(rig, program, count, n):
    """From the first quarter to the last one, of a program that runs."""
    await_true(lambda: program.is_alive() and count() >= n // 4, "the first quarter", LOOK_EVERY_S)
    began, first = time.monotonic(), count()
    before = sum(map(process_cpu_s, program.pids)), backends(rig)
    await_true(lambda: program.is_alive() and count() >= n, "the last one", LOOK_EVERY_S)
    seconds = time.monotonic() - began
    time.sleep(SETTLE_S)
    after = sum(map(process_cpu_s, program.pids)), backends(rig)
    if count() != n:
        raise RuntimeError(f"{count()} were done of {n}")
    cpu_us, backends_us = [(now - then) / (n - first) * 1e6 for then, now in zip(before, after)]
    return {"per_s": (n - first) / seconds, "cpu_us": cpu_us, "backends_us": backends_us}


@contextmanager
def sink(rig, postgres, options=""):
    with rig.relay("jobs", [f'{{ name: jobs, topics: ["**"], start: beginning, {options} postgres: {postgres} }}']
                   ) as relay:
        relay.pids = [relay.pid]
        yield relay


def drained(rig, target, n_events, postgres, options=""):
    """A backlog that is there, from its beginning; `target` has the inbox, in which all must be afterwards."""
    rig.forget()
    target.sql("TRUNCATE courier_inbox.slot_0, courier_inbox.slot_1, courier_inbox.slot_2")
    target.sql("CHECKPOINT")
    first_id = rig.sql("SELECT min(id) FROM courier.outbox")[0][0]
    with sink(rig, postgres, options) as relay:
        result = meter(rig, relay, settled(rig, first_id), n_events)
    accepted = target.sql("SELECT count(*) FROM courier_inbox.slot_0")[0][0]
    if accepted != n_events:
        raise RuntimeError(f"the inbox has {accepted} of {n_events} events")
    return result


# ---- jobs ------------------------------------------------------------------------------------------

def calls(rig, concurrency):
    n = N_CALLS[concurrency]
    fill(rig, n)
    rig.sql("VACUUM (ANALYZE) courier.outbox")
    return drained(rig, rig, n, "{ call: app.nothing }", f"concurrency: {concurrency},")


def of_peer(rig, peer, purpose):
    n = peer.n_events[JOBS]
    peer.empty()
    peer.fill(n)
    rig.sql("VACUUM (ANALYZE)")
    rig.sql("CHECKPOINT")
    path = f"{rig.folder}/jobs.done"
    with open(path, "wb"):
        pass
    with peer.running(f"{NOTHING}:{path}", purpose) as program:
        return meter(rig, program, lambda: os.path.getsize(path), n)


def effects(rig):
    """Percentiles of the milliseconds from COMMIT's return to what the function notes."""
    empty(rig)
    rig.sql("TRUNCATE app.effect")
    insert = ("INSERT INTO courier.outbox (topic, key, type, payload)"
              " VALUES ('pace', 'customer-' || $1::bigint % 1000, 'order', $2)")
    with sink(rig, "{ call: app.note }", "concurrency: 8,") as relay:
        n_warm = PER_S * WARM_UP_S
        publish(rig, "app", insert, PER_S, WARM_UP_S, 1)
        committed = publish(rig, "app", insert, PER_S, PACE_S, 1, n_warm)
        await_true(lambda: relay.is_alive() and rig.sql("SELECT count(*) FROM app.effect")[0][0]
                   >= n_warm + len(committed), "effects")
    at_us = {n: int(us) for n, us in rig.sql("SELECT n, extract(epoch FROM at) * 1000000 FROM app.effect")}
    if len(at_us) != n_warm + len(committed):
        raise RuntimeError("an effect came twice")
    return percentiles([(at_us[n] - after_us) / 1000 for n, (_, after_us) in committed.items()])


# ---- a table ---------------------------------------------------------------------------------------

def inserts(rig, other, options):
    other.sql("TRUNCATE app.events")
    return drained(rig, other, N_INSERTED, f'{{ insert: app.events, dsn: "{other.dsn("pgcourier")}" }}', options)


def as_copied(row):
    return "\t".join("\\N" if value is None else value.replace("\\", "\\\\") for value in row) + "\n"


def bare(other, rows):
    """The same rows by COPY, with accept_many() in the same transactions; they are read and written out
    before the time begins."""
    other.sql("TRUNCATE app.events, courier_inbox.slot_0, courier_inbox.slot_1, courier_inbox.slot_2")
    other.sql("CHECKPOINT")
    pieces = [(("bare", [row[0] for row in piece]), "".join(map(as_copied, piece)))
              for piece in (rows[first:first + BATCH] for first in range(0, len(rows), BATCH))]
    connection = psycopg2.connect(other.dsn("pgcourier"))
    pid, before = connection.get_backend_pid(), cpu_s(connection.get_backend_pid())
    began = time.monotonic()
    for accepted, copied in pieces:
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM courier_inbox.accept_many(%s, %s::uuid[])", accepted)
            cursor.copy_expert("COPY app.events FROM STDIN", io.StringIO(copied))
    result = {"per_s": len(rows) / (time.monotonic() - began), "backends_us": (cpu_s(pid) - before) * 1e6 / len(rows)}
    connection.close()
    return result


def table(rig, other):
    fill(rig, N_INSERTED)
    rig.sql("VACUUM (ANALYZE) courier.outbox")
    rows = [[value if value is None else str(value) for value in row] for row in rig.sql(ROWS)]
    return {**{way: inserts(rig, other, options) for way, options in INTO_A_TABLE.items()}, BARE: bare(other, rows)}


# ---- all -------------------------------------------------------------------------------------------

def run(rig):
    of_all = [GraphileWorker(rig), PgBoss(rig)]
    here = [peer for peer in of_all if not peer.missing()]
    inbox(rig)
    rig.sql(FUNCTIONS)
    for peer in here:
        peer.create()
    rig.sql("CREATE DATABASE jobs")
    other = rig.elsewhere("jobs")
    inbox(other)
    other.sql(TABLE)
    results = {}
    ways = [("calls", 8), ("calls", 1), *((peer, purpose) for peer in here for purpose in (JOBS, JOBS_IN_BATCHES))]
    for turn in range(1, rig.repeat + 1):
        for what, how in ways if turn % 2 else reversed(ways):
            result = calls(rig, how) if what == "calls" else of_peer(rig, what, how)
            results.setdefault((what, how), []).append(result)
            progress(f"turn {turn} of {rig.repeat}: {what if what == 'calls' else what.name}, {how}:"
                     f" {result['per_s']:,.0f}/s")
        results.setdefault("effects", []).append(effects(rig))
        progress(f"turn {turn} of {rig.repeat}: effects")
        results.setdefault("table", []).append(table(rig, other))
        progress(f"turn {turn} of {rig.repeat}: a table")
    rig.drop_database(other)
    rig.sql("DROP SCHEMA app CASCADE")
    return figures(of_all, results)


def figures(of_all, results):
    lines = []
    for concurrency in N_CALLS:
        lines += rates(f"calls, {concurrency} at a time", results["calls", concurrency], TARGETS[concurrency])
    for peer in of_all:
        if peer.missing():
            lines.append(not_measured(peer.name, peer.missing()))
            continue
        for purpose in (JOBS, JOBS_IN_BATCHES):
            lines += rates(f"{peer.name} {peer.version()}, {purpose}", results[peer, purpose])
    for name, target in (("p50", "< 1.5"), ("p99", None)):
        lines.append(figure(f"{PER_S}/s, COMMIT to the effect, {name}", "ms",
                            [turn[name] for turn in results["effects"]], target))
    for way in (*INTO_A_TABLE, BARE):
        lines += rates(f"into a table, {way}", [turn[way] for turn in results["table"]],
                       None if way == BARE else ">= 50,000")
    return lines + [
        figure(f"into a table, {way}: CPU of PostgreSQL's backends, to the bare COPY", "ratio",
               [turn[way]["backends_us"] / turn[BARE]["backends_us"] for turn in results["table"]])
        for way in INTO_A_TABLE]


def rates(what, turns, target=None):
    shown = {"": ("per_s", "per s"), ": CPU of PostgreSQL's backends": ("backends_us", "us each"),
             ": CPU of the program": ("cpu_us", "us each")}
    return [figure(what + name, unit, [turn[key] for turn in turns], target if name == "" else None)
            for name, (key, unit) in shown.items() if key in turns[0]]
