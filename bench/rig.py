"""What cells measure with: the two servers, a backlog, relays, and the kernel's accounts."""

import copy
import mmap
import os
import re
import select
import socket
import struct
import subprocess
import time

import psycopg2
import redis

from measure import log_lines
from progress import progress

PAYLOAD_BYTES = 256
TOPICS = ["orders.created", "orders.paid"]
KEYS = 1000
PER_TRANSACTION = 1000
DEADLINE_S = 200  # the machine may be busy


def figure(name, unit, values, target=None, in_table=True):
    """One line of the table; several values are repetitions, of which the median counts.

    A target ("<= 1.5") is compared with the median. What is not for the table is in the JSON only.
    """
    return {"figure": name, "unit": unit, "values": values, "in_table": in_table,
            **({"target": target} if target else {})}


def not_measured(name, why):
    """A line of the table that says why there is no figure."""
    return {"figure": name, "why": why, "in_table": True}


def sched_s(pid, column):
    total_ns = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
            total_ns += int(file.read().split()[column])
    return total_ns / 1e9


def cpu_s(pid):
    """CPU seconds of a process so far, of all its threads."""
    return sched_s(pid, 0)


def process_cpu_s(pid):
    """The same with threads that have ended, as Java's do; to a hundredth of a second."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def waited_s(pid):
    """How long they were ready to run and had no core: what the machine's other work has cost."""
    return sched_s(pid, 1)


def memory_mib(pid, name):
    """VmRSS, VmHWM (its peak), RssAnon, … of /proc/PID/status."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
    raise KeyError(name)


def await_true(condition, what, interval_s=0.02, deadline_s=DEADLINE_S):
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} after {deadline_s} s")
        time.sleep(interval_s)


class Relay:
    """A running relay; use it with `with`."""

    def __init__(self, rig, name, sinks, log_level="info", n_lanes=None, environment=None, settings="",
                 stdout=None):
        self.name, self.log_path = name, f"{rig.folder}/{name}.log"
        config = (f'postgres: {{ dsn: "{rig.dsn("pgcourier")} application_name={name}" }}\n'
                  f'relay: {{ name: {name}, modules: "{rig.folder}/modules" }}\n{settings}'
                  "sinks:\n" + "".join(f"  - {sink}\n" for sink in sinks))
        with open(f"{rig.folder}/{name}.yaml", "w", encoding="utf-8") as file:
            file.write(config)
        self.n_lanes = n_lanes or len(sinks)
        with open(self.log_path, "wb") as log:
            self.started_us = time.time_ns() // 1000
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", f"{rig.folder}/pgcourier", "run", "-c",
                 f"{rig.folder}/{name}.yaml", "--log-level", log_level], stdout=stdout, stderr=log,
                env={**os.environ, **(environment or {})})
        self.pid = self.process.pid

    def __enter__(self):
        await_true(lambda: self.is_alive() and len(self.owned_us()) == self.n_lanes,
                   "lane_owned in the relay's log")
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.process.kill()
            return
        self.process.terminate()
        if self.process.wait(timeout=60) != 0:
            raise RuntimeError(f"the relay exited with {self.process.returncode}")

    def is_alive(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"the relay ended with {self.process.returncode}")
        return True

    def owned_us(self):
        return [fields["us"] for fields in log_lines(self.log_path, "lane_owned")]


def transactions(watcher):
    """PostgreSQL's so far. The watcher is a cursor in another database, or it would count itself."""
    watcher.execute("SELECT xact_commit + xact_rollback FROM pg_stat_database"
                    " WHERE datname = 'bench'")
    return watcher.fetchone()[0]


def free_port(n_ports):
    """The first of so many in a row that no process listens on, below those that clients are given."""
    for port in range(20_000, 30_000, 10):
        try:
            for one in range(port, port + n_ports):
                with socket.socket() as listener:
                    listener.bind(("0.0.0.0", one))
            return port
        except OSError:
            continue
    raise RuntimeError("no free ports")


class Receiver:
    """A running bench/receiver.c; use it with `with`. Requests are published_us, arrived_us, n, receiver."""

    RECORD = struct.Struct("=qqii")
    HEAD = struct.Struct("=QQ")

    def __init__(self, rig, delay_ms=0, tls=False):
        self.port = free_port(3)
        self.silent_port, self.closed_port = self.port + 1, self.port + 2
        self.path = f"{rig.folder}/received"
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", f"{rig.folder}/receiver", str(self.port),
             str(delay_ms), self.path, *([rig.certificate()] if tls else [])])
        await_true(self.is_listening, "answer from the receiver")
        with open(self.path, "rb") as file:
            self.memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def is_listening(self):
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.memory.close()
        self.process.kill()
        self.process.wait()
        os.remove(self.path)

    def count(self):
        if self.process.poll() is not None:
            raise RuntimeError("the receiver ended")
        return self.HEAD.unpack_from(self.memory)[0]

    def requests(self, first=0):
        head, size = self.HEAD.size, self.RECORD.size
        return list(self.RECORD.iter_unpack(
            self.memory[head + first * size:head + self.count() * size]))


def run_bare(rig, name, arguments):
    """A bare client (bench/bare) to its end: what it says, its CPU and its peak memory."""
    with subprocess.Popen(["setpriv", "--pdeathsig", "KILL", f"{rig.folder}/bare_{name}",
                           *map(str, arguments)],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if not select.select([process.stdout], [], [], DEADLINE_S)[0]:
            process.kill()
            raise TimeoutError(f"the bare client of {name} has not ended")
        said = dict(re.findall(r"(\w+)=(\d+)", process.stdout.readline()))
        if not said:
            raise RuntimeError(f"the bare client of {name} failed")
        return {"p50_us": int(said.get("p50_us", 0)), "seconds": int(said["us"]) / 1e6,
                "client_cpu_s": cpu_s(process.pid), "peak_mib": memory_mib(process.pid, "VmHWM")}


class Rig:
    figure = staticmethod(figure)

    def __init__(self, folder, repeat, events, longer=1.0):
        self.folder, self.repeat, self.events = folder, repeat, events
        self.longer = longer  # cells that take a fixed time take so many times as much
        self.redis = redis.Redis(unix_socket_path=f"{folder}/redis.sock", decode_responses=True)
        self.connect("bench")
        self.has_backlog = False
        self.sql("CREATE ROLE app LOGIN IN ROLE courier_publisher")
        self.sql("CREATE ROLE pgcourier LOGIN IN ROLE courier_relay")
        # Nothing of PostgreSQL's own shall run at a time that differs between repetitions; the
        # cells vacuum what they have loaded.
        self.autovacuum("off")

    def connect(self, database):
        self.database = database
        self.connection = psycopg2.connect(self.dsn("postgres"))
        self.connection.autocommit = True

    def elsewhere(self, database):
        """The same server, in another database, which exists."""
        other = copy.copy(self)
        other.connect(database)
        return other

    def new_database(self, database, before=None):
        """Another outbox in another database of the same server; drop_database() ends it. before: its
        schema has only the migrations below that number."""
        self.sql(f"CREATE DATABASE {database}")
        other = self.elsewhere(database)
        if before is None:
            subprocess.run([f"{self.folder}/pgcourier", "migrate", "--dsn", other.dsn("postgres")],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        else:
            printed = subprocess.run([f"{self.folder}/pgcourier", "migrate", "--print"],
                                     check=True, capture_output=True, text=True).stdout
            other.sql(printed.split(f"-- pgcourier schema, version {before}:")[0])
        return other

    def drop_database(self, other):
        other.connection.close()
        self.sql(f"DROP DATABASE {other.database}")

    def dsn(self, user, database=None):
        return f"host={self.folder} dbname={database or self.database} user={user}"

    def sql(self, text, *values):
        with self.connection.cursor() as cursor:
            cursor.execute(text, values or None)
            return cursor.fetchall() if cursor.description else None

    def autovacuum(self, value):
        self.sql(f"ALTER SYSTEM SET autovacuum = {value}")
        self.sql("SELECT pg_reload_conf()")

    def relay(self, name, sinks, **options):
        return Relay(self, name, sinks, **options)

    def receiver(self, delay_ms=0, tls=False):
        return Receiver(self, delay_ms, tls)

    def certificate(self):
        """A PEM file with a self-signed certificate for 127.0.0.1 and its key."""
        path = f"{self.folder}/receiver.pem"
        if not os.path.exists(path):
            made = subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-days", "2", "-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1",
                 "-keyout", "-", "-out", "-"], check=True, capture_output=True)
            with open(path, "wb") as file:
                file.write(made.stdout)
            os.chmod(path, 0o644)
        return path

    def watcher(self):
        """A cursor for transactions()."""
        connection = psycopg2.connect(self.dsn("postgres", database="postgres"))
        connection.autocommit = True
        return connection.cursor()

    def redis_sink(self, name, options="", topics="**"):
        return (f'{{ name: {name}, topics: ["{topics}"], {options} '
                f'redis: {{ url: "unix://{self.folder}/redis.sock" }} }}')

    def stream_lengths(self):
        return sum(self.redis.xlen(f"events:{topic}") for topic in TOPICS)

    def forget(self):
        """Empties Redis, and removes all sinks, receivers and cursors; the outbox stays."""
        self.redis.flushall()
        self.sql("DELETE FROM courier.receiver")
        self.sql("DELETE FROM courier.sink")
        self.sql("DELETE FROM courier.cursor")
        self.sql("DELETE FROM courier.shard_end")
        self.sql("TRUNCATE courier.attempt_pack")

    def backlog(self):
        """Fills the outbox, once."""
        if self.has_backlog:
            return
        progress(f"  loading {self.events:,} events of {PAYLOAD_BYTES} bytes")
        self.sql("TRUNCATE courier.outbox")
        for first in range(0, self.events, PER_TRANSACTION):
            self.sql("""
                INSERT INTO courier.outbox (topic, key, type, payload)
                SELECT (%s)[1 + n %% 2], 'customer-' || n %% %s, 'order',
                       (rpad('{"order": ' || n || ', "note": "', %s - 2, 'x') || '"}')::json
                FROM generate_series(%s, %s) AS n""",
                TOPICS, KEYS, PAYLOAD_BYTES, first, min(first + PER_TRANSACTION, self.events) - 1)
        self.sql("VACUUM (ANALYZE) courier.outbox")
        self.sql("CHECKPOINT")
        self.has_backlog = True

    def keep(self, n_events):
        """Leaves the first so many events of the backlog."""
        progress(f"  leaving {n_events:,} events")
        self.sql("CREATE TEMPORARY TABLE kept AS"
                 " SELECT * FROM courier.outbox ORDER BY id LIMIT %s", n_events)
        self.sql("TRUNCATE courier.outbox")
        self.has_backlog = False
        self.sql("INSERT INTO courier.outbox OVERRIDING SYSTEM VALUE SELECT * FROM kept")
        self.sql("DROP TABLE kept")
        self.sql("VACUUM (ANALYZE) courier.outbox")

    def backends(self, name):
        """The PostgreSQL processes that serve the relay of this name: the two that stay. One more comes
        and goes, for maintenance."""
        return [pid for pid, in self.sql(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
            " ORDER BY backend_start LIMIT 2", name)]
