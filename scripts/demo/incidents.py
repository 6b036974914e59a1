"""Five incidents, as an operator meets them (scripts/incidents).

incidents.py FOLDER [NAME...]

Each is staged, looked at with the commands that the documentation names, and mended with the command
that those name. Prints what a terminal would show; fails if an answer lacks the cause or the remedy.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

import psycopg2

from ports import free_ports  # scripts/lib

CONFIG = """\
postgres: {{ dsn: "host={folder} dbname=shop user=pgcourier" }}
admin: {{ listen: "unix:{folder}/admin.sock" }}
sinks:
  - name: billing
    topics: ["orders.*"]
    http: {{ url: "http://127.0.0.1:{port}/hooks", signing: none }}
    retry: {{ first: 1s, max: 2s }}
  - name: audit
    topics: ["**"]
    stdout: {{}}
"""


class Incident:
    """The servers of one, and what is done with them; use it with `with`."""

    def __init__(self, folder):
        self.folder = folder
        self.mood_path = f"{folder}/mood"
        self.admin = f"host={folder} dbname=shop user=postgres"
        self.children = {}
        self.port = free_ports(1)[0]
        with open(f"{folder}/pgcourier.yaml", "w", encoding="utf-8") as file:
            file.write(CONFIG.format(folder=folder, port=self.port))

    def __enter__(self):
        self.start_receiver()
        self.start("relay", [f"{self.folder}/pgcourier", "run", "-c", "pgcourier.yaml"])
        self.app = self.connect("app")
        self.await_true(lambda: self.status() is not None and all(
            sink["state"] == "running" for sink in self.status()["sinks"]), "running sinks")
        return self

    def __exit__(self, *_):
        self.app.close()
        for name in list(self.children):
            self.stop(name)

    def start(self, name, command):
        log = open(f"{self.folder}/{name}.log", "a", encoding="utf-8")
        self.children[name] = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command], cwd=self.folder,
            stdout=subprocess.DEVNULL, stderr=log)

    def stop(self, name):
        child = self.children.pop(name)
        child.send_signal(signal.SIGTERM)
        child.wait(timeout=20)

    def start_receiver(self):
        self.start("receiver", ["/usr/bin/python3", "demo/moody_receiver.py", str(self.port),
                                self.mood_path])

    def mood(self, words):
        with open(self.mood_path, "w", encoding="ascii") as file:
            file.write(words)

    def connect(self, user):
        session = psycopg2.connect(f"host={self.folder} dbname=shop user={user}")
        session.autocommit = True
        return session

    def publish(self, topic, payload, key=None):
        with self.app.cursor() as cursor:
            cursor.execute("SELECT courier.publish(%s, %s, key => %s)",
                           (topic, json.dumps(payload), key))

    def use_transaction_ids(self, count):
        """As the rest of the cluster does in a busy hour: each block with an exception takes one."""
        with self.connect("postgres") as session, session.cursor() as cursor:
            cursor.execute("CREATE TEMPORARY TABLE work (done boolean)")
            cursor.execute(f"""DO $$ BEGIN
                FOR i IN 1 .. {count} LOOP
                  BEGIN
                    INSERT INTO work VALUES (true);
                  EXCEPTION WHEN OTHERS THEN NULL;
                  END;
                END LOOP;
              END $$""")

    def await_true(self, condition, what, deadline_s=120):
        """The deadline is for slow disks: before a queue of 0.5 GB shrinks, each listening backend reads it."""
        deadline = time.monotonic() + deadline_s
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {what} after {deadline_s} s")
            time.sleep(0.05)

    def status(self):
        """The status document; None if no relay answers."""
        said = subprocess.run([f"{self.folder}/pgcourier", "status", "-c", "pgcourier.yaml", "--json"],
                              cwd=self.folder, capture_output=True, text=True, check=False)
        return json.loads(said.stdout) if said.stdout else None

    def sink(self, name="billing"):
        return next(sink for sink in self.status()["sinks"] if sink["name"] == name)

    def held_by(self, pid):
        """How many transactions old the oldest snapshot is, if that session holds it."""
        holder = self.status()["source"]["oldest_xmin"]
        return holder["age_xids"] if holder and holder["pid"] == pid else 0

    def shell(self, command, *expected):
        """What a terminal shows of a command; `expected` are patterns that its output must have."""
        print(f"$ {command}")
        said = subprocess.run(["sh", "-c", command], cwd=self.folder, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}",
                                   "PGHOST": self.folder, "PGDATABASE": "shop", "COLUMNS": "120"}).stdout
        print(said, end="", flush=True)
        for pattern in expected:
            if not re.search(pattern, said):
                raise AssertionError(f"{command}: its output does not match {pattern!r}")
        return said

    def is_delivered(self, name="billing"):
        sink = self.sink(name)
        return sink["backlog"]["events"] == 0 and sink["retrying"] == sink["blocked"] == 0


def sink_down(incident):
    """A receiver is not there."""
    incident.stop("receiver")
    for order in range(12):
        incident.publish("orders.created", {"order": order}, str(order))
    incident.await_true(lambda: incident.sink()["state"] == "down"
                        and incident.sink()["backlog"]["events"] == 12, "outage")
    incident.shell("pgcourier status -c pgcourier.yaml", r"billing +down .*12", r"billing is down", r"Connection refused\. 12 events")
    incident.shell("pgcourier doctor -c pgcourier.yaml | grep -v ^ok", r"fail +sink billing: http")
    incident.start_receiver()
    incident.await_true(incident.is_delivered, "delivery after the outage")
    incident.shell("pgcourier status -c pgcourier.yaml", r"billing +running +0")


def poison_event(incident):
    """A receiver refuses one event for good."""
    incident.mood("refuse")
    incident.publish("orders.created", {"order": 1, "unknown": 4711}, "1")
    incident.publish("orders.paid", {"order": 1}, "1")
    incident.await_true(lambda: incident.sink()["dead"] == 1, "dead letter")
    incident.shell("pgcourier status -c pgcourier.yaml", r"1 dead letter of billing", r"help: pgcourier dead list")
    incident.shell("pgcourier dead list -c pgcourier.yaml", r"unknown article 4711")
    incident.mood("")
    incident.shell("pgcourier dead redrive -c pgcourier.yaml --sink billing --yes")
    incident.await_true(lambda: incident.sink()["dead"] == 0 and incident.is_delivered(), "redrive")
    incident.shell("pgcourier status -c pgcourier.yaml", r"billing +running +0")


def blocked_key(incident):
    """One key's events wait behind one that fails again and again."""
    incident.mood("busy")
    for step in ("created", "paid", "shipped"):
        incident.publish(f"orders.{step}", {"order": 17}, "17")
    incident.publish("orders.created", {"order": 18}, "18")
    incident.await_true(lambda: incident.sink()["retrying"] == 1 and incident.sink()["blocked"] == 2,
                        "blocked key")
    said = incident.shell("pgcourier status -c pgcourier.yaml", r"Key 17 of billing is blocked",
                          r"500 Internal Server Error: could not")
    incident.shell("pgcourier parked list -c pgcourier.yaml --blocked", r"billing +17 +2")
    incident.mood("")
    incident.shell(re.search(r"help: (pgcourier parked retry .*)", said)[1])
    incident.await_true(incident.is_delivered, "delivery of the key's events")
    incident.shell("pgcourier status -c pgcourier.yaml", r"billing +running +0")


def held_snapshot(incident):
    """A transaction has been open for long: nothing in the cluster can be vacuumed."""
    session = incident.connect("app")
    session.autocommit = False
    with session.cursor() as cursor:
        cursor.execute("SET application_name = 'nightly-report'")
        cursor.execute("SELECT pg_current_xact_id()")
    pid = session.info.backend_pid
    incident.use_transaction_ids(1_000_001)
    incident.publish("orders.created", {"order": 1}, "1")
    incident.await_true(incident.is_delivered, "delivery all the same")
    incident.await_true(lambda: incident.held_by(pid) > 1_000_000, "word of the snapshot")
    incident.shell("pgcourier status -c pgcourier.yaml", rf"\b{pid}\b", "nightly-report")
    incident.shell(f"pgcourier doctor --dsn '{incident.admin}' | grep -A1 snapshots", rf"\b{pid}\b",
                   "nightly-report", r"pg_terminate_backend")
    incident.shell(f'psql -U postgres -Atc "SELECT pg_terminate_backend({pid})"')
    session.close()
    incident.await_true(lambda: incident.held_by(pid) == 0, "end of the snapshot")
    incident.shell("pgcourier status -c pgcourier.yaml", "nothing needs attention")


def full_queue(incident):
    """A listener that never reads holds what all others were told."""
    session = incident.connect("app")
    session.autocommit = False
    with session.cursor() as cursor:
        cursor.execute("SET application_name = 'forgotten-worker'")
        cursor.execute("LISTEN jobs")
    session.commit()
    with session.cursor() as cursor:
        cursor.execute("SELECT 1")
    pid = session.info.backend_pid
    with incident.app.cursor() as cursor:
        cursor.execute("SELECT count(pg_notify('jobs', repeat('x', 7990) || i))"
                       " FROM generate_series(1, 60000) AS i")
    incident.await_true(lambda: incident.status()["source"]["notify_queue_usage"] > 0.05,
                        "word of the queue")
    incident.shell("pgcourier status -c pgcourier.yaml", r"notification queue")
    incident.shell(f"pgcourier doctor --dsn '{incident.admin}' | grep -A1 notifications",
                   rf"\b{pid}\b", "forgotten-worker", r"pg_terminate_backend")
    incident.shell(f'psql -U postgres -Atc "SELECT pg_terminate_backend({pid})"')
    session.close()
    incident.await_true(lambda: incident.status()["source"]["notify_queue_usage"] < 0.05,
                        "end of the queue")
    incident.shell("pgcourier status -c pgcourier.yaml", "nothing needs attention")


INCIDENTS = {"sink-down": sink_down, "poison-event": poison_event, "blocked-key": blocked_key,
             "held-snapshot": held_snapshot, "full-queue": full_queue}


def main():
    folder, *names = sys.argv[1:]
    for name in names or INCIDENTS:
        if name not in INCIDENTS:
            sys.exit(f"there is no incident {name!r}; there are {', '.join(INCIDENTS)}")
        print(f"\n## {name}: {INCIDENTS[name].__doc__}")
        with Incident(folder) as incident:
            INCIDENTS[name](incident)


if __name__ == "__main__":
    main()
