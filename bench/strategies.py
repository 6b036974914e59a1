"""Who drains an outbox: pgcourier, and the programs of bench/baselines, each of its own tables.

measure() lets one of them deliver all that it has to a sink and says what that took.
"""

import mmap
import os
import re
import select
import struct
import subprocess
import time

import psycopg2

from rig import DEADLINE_S, TOPICS, await_true, cpu_s, memory_mib

NULL, REDIS, HTTP = "null", "redis", "http"

# pgcourier's page is a share of max_in_flight, which is what one configures. DEFAULT: nothing is.
DEFAULT = "default"
MAX_IN_FLIGHT = {100: 400, 1000: 4000}

COLUMNS = "id, event_id, topic, key, type, payload, headers, created_at"
OUTBOX = re.compile(r"courier\.outbox(_p\d+|_default)?")
BACKGROUND = ("walwriter", "checkpointer", "background writer", "autovacuum launcher")


class NullCount:
    """What bench/null_sink.c shares; and its block of the configuration."""

    SHARED = struct.Struct("=QqQ")

    def __init__(self, rig, name="null_count"):
        self.path = f"{rig.folder}/{name}"
        with open(self.path, "wb") as file:
            file.write(bytes(self.SHARED.size))

    def block(self):
        return f'module: {{ file: null_sink.so, options: {{ file: "{self.path}" }} }}'

    def read(self):
        """How many events, and the wall time of the last."""
        with open(self.path, "rb") as file:
            return self.SHARED.unpack(file.read(self.SHARED.size))[:2]


class Destination:
    """A sink for one run, with a count of what it holds; use it with `with`."""

    look_every_s = 0.005

    def __init__(self, rig, kind):
        self.rig, self.kind, self.receiver, self.null = rig, kind, None, None

    def __enter__(self):
        self.rig.redis.flushall()
        if self.kind == HTTP:
            self.receiver = self.rig.receiver()
        if self.kind == NULL:
            self.null = NullCount(self.rig)
        return self

    def __exit__(self, *_):
        if self.receiver:
            self.receiver.__exit__()

    def argument(self):
        """For a baseline."""
        return {NULL: "null", REDIS: f"redis:{self.rig.folder}/redis.sock",
                HTTP: f"http:{self.receiver.port if self.receiver else 0}"}[self.kind]

    def block(self):
        """For the relay."""
        if self.kind == NULL:
            return self.null.block()
        if self.kind == REDIS:
            return f'redis: {{ url: "unix://{self.rig.folder}/redis.sock" }}'
        return f'http: {{ url: "http://127.0.0.1:{self.receiver.port}/1" }}'

    def count(self):
        if self.kind == NULL:
            return self.null.read()[0]
        return self.rig.stream_lengths() if self.kind == REDIS else self.receiver.count()

    def full_us(self):
        """When it held all: what it says itself, or now."""
        if self.kind == NULL:
            return self.null.read()[1]
        if self.kind == HTTP:
            return self.receiver.requests(first=self.count() - 1)[0][1]
        return time.time_ns() // 1000


class Accounts:
    """What PostgreSQL had to do meanwhile, for `application`. The asking session is in another
    database, or would be counted."""

    def __init__(self, rig, application):
        self.rig, self.application = rig, application
        self.watcher = rig.watcher()
        self.before_tuples = self.tuples()
        self.rig.sql("SELECT pg_stat_force_next_flush()")
        self.before = self.totals()
        self.background_before = self.background_s()

    def ask(self, sql, *values):
        self.watcher.execute(sql, values or None)
        return self.watcher.fetchall()

    def totals(self):
        return self.ask("SELECT pg_current_wal_insert_lsn() - '0/0', xact_commit"
                        " FROM pg_stat_database WHERE datname = 'bench'")[0]

    def tuples(self):
        return dict(self.rig.sql("SELECT schemaname || '.' || relname, n_tup_upd + n_tup_del"
                                 " FROM pg_stat_user_tables"))

    def background_s(self):
        return sum(cpu_s(pid) for pid, in self.ask(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = ANY (%s)", list(BACKGROUND)))

    def backends(self):
        return [pid for pid, in self.ask(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s", self.application)]

    def backends_s(self):
        """Those that are connected now. Ours for maintenance may be gone meanwhile."""
        return sum(cpu_s(pid) for pid in self.backends() if os.path.exists(f"/proc/{pid}"))

    def close(self):
        """The rest, once the backends have gone and have handed in their counts."""
        await_true(lambda: not self.backends(), "end of the backends")
        background_s = self.background_s() - self.background_before
        wal, commits = (after - before for before, after in zip(self.before, self.totals()))
        self.watcher.connection.close()
        dead = {name: n - self.before_tuples.get(name, 0) for name, n in self.tuples().items()}
        return {"wal_bytes": float(wal), "commits": commits, "background_cpu_s": background_s,
                "dead_tuples": sum(dead.values()),
                "outbox_dead_tuples": sum(n for name, n in dead.items() if OUTBOX.fullmatch(name))}


class Courier:
    """pgcourier itself; its table is the rig's outbox."""

    name = "pgcourier"
    claims_rows = False

    def reset(self, rig, n_events, batch):
        rig.sql("DELETE FROM courier.cursor")

    def drain(self, rig, n_events, batch, destination):
        settings = "" if batch == DEFAULT else f"max_in_flight: {MAX_IN_FLIGHT[batch]}, "
        if destination.kind == HTTP:
            settings += "concurrency: 256, "
        sink = (f'{{ name: drain, topics: ["**"], start: beginning, {settings}'
                f'{destination.block()} }}')
        redis_pid = rig.redis.info("server")["process_id"]
        redis_before_s = cpu_s(redis_pid)
        accounts = Accounts(rig, "drain")
        with rig.relay("drain", [sink]) as relay:
            await_true(lambda: relay.is_alive() and destination.count() >= n_events, "full sink",
                       interval_s=destination.look_every_s)
            result = {
                "seconds": (destination.full_us() - relay.owned_us()[0]) / 1e6,
                "client_cpu_s": cpu_s(relay.pid),
                "backend_cpu_s": accounts.backends_s(),
                "redis_cpu_s": cpu_s(redis_pid) - redis_before_s,
                "peak_mib": memory_mib(relay.pid, "VmHWM"),
            }
        return {**result, **accounts.close()}


class Baseline:
    """A program of bench/baselines and its table. One that deletes is given its events anew before
    each run, the others have their cursor put back."""

    def __init__(self, name, claims_rows=False, deletes=False, rewind="", columns=COLUMNS):
        self.name, self.claims_rows, self.deletes = name, claims_rows, deletes
        self.rewind, self.columns = rewind, columns
        self.table = f"baseline.{name}"
        self.n_prepared = None

    def create(self, rig):
        with open(f"{rig.folder}/bench/baselines/{self.name}.sql", encoding="utf-8") as file:
            rig.sql(file.read())

    def fill(self, rig, n_events):
        rig.sql(f"TRUNCATE {self.table}")
        rig.sql(f"INSERT INTO {self.table} ({self.columns}) SELECT {self.columns}"
                " FROM courier.outbox ORDER BY id LIMIT %s", n_events)

    def prepare(self, rig, n_events):
        """What lasts for all runs."""
        if self.n_prepared != n_events:
            self.fill_once(rig, n_events)
            self.n_prepared = n_events

    def fill_once(self, rig, n_events):
        self.fill(rig, n_events)
        rig.sql(f"VACUUM (ANALYZE) {self.table}")

    def reset(self, rig, n_events, batch):
        if self.deletes:
            self.fill(rig, n_events)
            rig.sql(f"SELECT count(*) FROM {self.table}")  # no first reader's work is left
            rig.sql(f"ANALYZE {self.table}")
        else:
            rig.sql(self.rewind)

    def drain(self, rig, n_events, batch, destination):
        redis_pid = rig.redis.info("server")["process_id"]
        redis_before_s = cpu_s(redis_pid)
        accounts = Accounts(rig, self.name)
        with subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", f"{rig.folder}/{self.name}",
                 f"{rig.dsn('postgres')} application_name={self.name}", str(batch),
                 destination.argument()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True) as process:
            if not select.select([process.stdout], [], [], DEADLINE_S)[0]:
                process.kill()
                raise TimeoutError(f"{self.name} has not ended after {DEADLINE_S} s")
            said = dict(re.findall(r"(\w+)=(\d+)", process.stdout.readline()))
            if not said:
                raise RuntimeError(f"{self.name} failed")
            result = {
                "seconds": int(said["us"]) / 1e6,
                "client_cpu_s": cpu_s(process.pid),
                "backend_cpu_s": accounts.backends_s(),
                "redis_cpu_s": cpu_s(redis_pid) - redis_before_s,
                "peak_mib": memory_mib(process.pid, "VmHWM"),
            }
        self.check(rig, int(said["events"]), n_events)
        return {**result, **accounts.close()}

    def check(self, rig, n_delivered, n_events):
        if n_delivered != n_events:
            raise RuntimeError(f"{self.name} delivered {n_delivered} of {n_events} events")
        if self.deletes:
            left = rig.sql(f"SELECT count(*) FROM {self.table}")[0][0]
            if left != 0:
                raise RuntimeError(f"{self.name} left {left} events behind")


class PgqBaseline(Baseline):
    """Two queues for each size of a batch, of which the consumer is put back to the first tick."""

    def queues(self, batch):
        return [(topic, f"{topic} {batch}") for topic in TOPICS]

    def fill_once(self, rig, n_events):
        connection = psycopg2.connect(rig.dsn("postgres"))
        connection.autocommit = True  # pgq_fill() commits
        cursor = connection.cursor()
        cursor.execute("SELECT queue_name FROM pgq.queue")
        for queue, in cursor.fetchall():
            cursor.execute("SELECT pgq.drop_queue(%s, true)", (queue,))
        for batch in MAX_IN_FLIGHT:
            for topic, queue in self.queues(batch):
                cursor.execute("SELECT baseline.pgq_create(%s)", (queue,))
                cursor.execute("CALL baseline.pgq_fill(%s, %s, %s, %s)",
                               (queue, topic, n_events // len(TOPICS), batch))
        cursor.execute("VACUUM (ANALYZE)")
        connection.close()

    def reset(self, rig, n_events, batch):
        rig.sql("VACUUM pgq.subscription")  # as pgqd does now and then
        for _, queue in self.queues(batch):
            rig.sql("SELECT pgq.unregister_consumer(queue_name, consumer_name)"
                    " FROM pgq.get_consumer_info(%s)", queue)
            rig.sql("SELECT pgq.register_consumer_at(%s, 'bench', min(tick_id))"
                    " FROM pgq.tick JOIN pgq.queue ON queue_id = tick_queue"
                    " WHERE queue_name = %s", queue, queue)


COURIER = Courier()
LONG_TRANSACTION = Baseline("long_transaction", claims_rows=True, deletes=True)
ADVISORY_LOCK = Baseline("advisory_lock", deletes=True)
LEASE = Baseline("lease", claims_rows=True, deletes=True)
XID_CURSOR = Baseline("xid_cursor", rewind="DELETE FROM baseline.xid_cursor_offset",
                      columns=f"txid, {COLUMNS}")
SERIALISED_WRITERS = Baseline(
    "serialised_writers", rewind="UPDATE baseline.serialised_writers_cursor SET last_id = 0")
PGQ = PgqBaseline("pgq")
BASELINES = [LONG_TRANSACTION, ADVISORY_LOCK, LEASE, XID_CURSOR, SERIALISED_WRITERS, PGQ]
STRATEGIES = [COURIER, *BASELINES]


def create(rig):
    """The baselines' tables, once."""
    rig.sql("CREATE SCHEMA IF NOT EXISTS baseline")
    if rig.sql("SELECT to_regclass('baseline.lease') IS NULL")[0][0]:
        for baseline in BASELINES:
            baseline.create(rig)


def measure(rig, strategy, n_events, batch, kind):
    """What it takes the strategy to deliver its n_events; each must have arrived, and once."""
    strategy.reset(rig, n_events, batch)
    with Destination(rig, kind) as destination:
        result = strategy.drain(rig, n_events, batch, destination)
        if kind != NULL or strategy is COURIER:
            if destination.count() != n_events:
                raise RuntimeError(f"{strategy.name}: {destination.count()} of {n_events} events"
                                   f" are in the {kind} sink")
    return {**result, "n_events": n_events, "events_per_s": n_events / result["seconds"]}
