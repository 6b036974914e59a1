"""Debezium Server: an outbox table as its outbox event router wants it, to a sink of its own.

For a drain to Kafka the table is filled once, behind a slot that is kept; each drain starts from a copy of that slot, and
finds the same changes in the WAL. Its time begins with the first message in Kafka: Java's start, the
connection and the first fill of the queues are given to it.
"""

import os
import subprocess
import time
from contextlib import contextmanager

from rig import await_true, cpu_s, memory_mib, process_cpu_s

HEAP = "-Xmx1g"  # without a limit it would take a quarter of the machine's memory
SETUP = """
    CREATE SCHEMA IF NOT EXISTS baseline;
    CREATE TABLE baseline.debezium (
      id            uuid PRIMARY KEY,
      aggregatetype text NOT NULL,
      aggregateid   text NOT NULL,
      type          text NOT NULL,
      payload       json
    );
    CREATE PUBLICATION debezium FOR TABLE baseline.debezium WITH (publish = 'insert')"""
FILL = """
    INSERT INTO baseline.debezium
      SELECT event_id, topic, key, type, payload FROM courier.outbox WHERE id >= %s AND id < %s"""
PER_TRANSACTION = 1000  # as the backlog's writers

NEW_SLOT = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')"
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'Debezium%%'"

# Larger batches than its defaults (2048 and 8192); the payload as it is, not made into a JSON string.
SETTINGS = """
debezium.source.connector.class=io.debezium.connector.postgresql.PostgresConnector
debezium.source.database.hostname=127.0.0.1
debezium.source.database.port={postgres_port}
debezium.source.database.user=postgres
debezium.source.database.password=none
debezium.source.database.dbname=bench
debezium.source.topic.prefix=bench
debezium.source.plugin.name=pgoutput
debezium.source.slot.name=debezium
debezium.source.publication.name=debezium
debezium.source.publication.autocreate.mode=disabled
debezium.source.table.include.list=baseline.debezium
debezium.source.snapshot.mode=no_data
debezium.source.max.batch.size=8192
debezium.source.max.queue.size=32768
debezium.source.poll.interval.ms=10
debezium.source.extended.headers.enabled=false
debezium.source.tombstones.on.delete=false
debezium.source.offset.storage.file.filename={folder}/debezium.offsets
debezium.transforms=outbox
debezium.transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
debezium.transforms.outbox.route.topic.replacement=\\\\${{routedByValue}}
debezium.transforms.outbox.table.fields.additional.placement=type:header:type
debezium.format.key=simplestring
debezium.format.value=simplestring
debezium.format.header.schemas.enable=false
{sink}
quarkus.http.host=127.0.0.1
quarkus.http.port=0
quarkus.log.console.json=false
quarkus.log.level=INFO
"""
KAFKA = """
debezium.sink.type=kafka
debezium.sink.kafka.producer.bootstrap.servers=127.0.0.1:{kafka_port}
debezium.sink.kafka.producer.key.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.sink.kafka.producer.value.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.sink.kafka.producer.acks=all
debezium.sink.kafka.producer.enable.idempotence=true
debezium.sink.kafka.producer.batch.size=131072
"""


class Debezium:
    """sink: the lines of its configuration that are the sink's."""

    name = "Debezium Server"

    def __init__(self, rig, sink):
        self.rig, self.sink = rig, sink
        self.home = f"{rig.folder}/debezium"

    def configure(self):
        settings = SETTINGS.format(folder=self.rig.folder, sink=self.sink.strip(),
                                   postgres_port=self.rig.sql("SHOW port")[0][0])
        os.makedirs(f"{self.home}/config", exist_ok=True)
        with open(f"{self.home}/config/application.properties", "w", encoding="ascii") as file:
            file.write(settings)
        if os.path.exists(f"{self.rig.folder}/debezium.offsets"):
            os.remove(f"{self.rig.folder}/debezium.offsets")

    def create(self, n_events):
        """Its table with so many events of the backlog, behind a slot."""
        self.rig.sql(SETUP)
        self.rig.sql(NEW_SLOT, "kept")
        first, = self.rig.sql("SELECT min(id) FROM courier.outbox")[0]
        for number in range(first, first + n_events, PER_TRANSACTION):
            self.rig.sql(FILL, number, min(number + PER_TRANSACTION, first + n_events))
        self.rig.sql("CHECKPOINT")

    def drop(self):
        self.rig.sql("SELECT pg_drop_replication_slot('kept')")
        self.rig.sql("DROP PUBLICATION debezium")
        self.rig.sql("DROP TABLE baseline.debezium")

    def version(self):
        jars = os.listdir(f"{self.home}/lib")
        name = next(jar for jar in jars if jar.startswith("debezium-server-core-"))
        return name.removeprefix("debezium-server-core-").removesuffix(".jar")

    def backend_s(self):
        """Of the process that decodes the WAL, and of the connector's other connections."""
        return sum(cpu_s(pid) for pid, in self.rig.sql(BACKENDS))

    @contextmanager
    def running(self):
        """Its process, which reads from the slot `debezium`; that is dropped afterwards."""
        self.configure()
        with open(f"{self.rig.folder}/debezium.log", "wb") as log:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "bash", "run.sh"], cwd=self.home,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "JAVA_OPTS": HEAP, "JAVA_HOME": f"{self.home}/jre"})
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=60)
            await_true(lambda: not self.rig.sql(
                "SELECT 1 FROM pg_replication_slots WHERE slot_name = 'debezium' AND active"),
                "end of the replication")
            self.rig.sql("SELECT pg_drop_replication_slot('debezium')")

    def check(self, process):
        if process.poll() is not None:
            with open(f"{self.rig.folder}/debezium.log", encoding="utf-8") as log:
                raise RuntimeError("Debezium Server ended:\n" + "".join(log.readlines()[-40:]))

    def drain(self, kafka, n_events):
        kafka.reset()
        self.rig.sql("SELECT pg_copy_logical_replication_slot('kept', 'debezium')")
        with self.running() as process:
            return self.measure(process, kafka, n_events)

    def spent(self, process):
        """Seconds of the clock, of its CPU and of its backends' so far."""
        return time.monotonic(), process_cpu_s(process.pid), self.backend_s()

    def measure(self, process, kafka, n_events):
        def has(n):
            self.check(process)
            return kafka.count() >= n

        await_true(lambda: has(1), "first message of Debezium Server", kafka.look_every_s)
        n_before, before = kafka.count(), self.spent(process)
        await_true(lambda: has(n_events), "last message of Debezium Server", kafka.look_every_s)
        after = self.spent(process)
        seconds, client_cpu_s, backend_cpu_s = [now - then for then, now in zip(before, after)]
        if kafka.count() != n_events:
            raise RuntimeError(f"Debezium Server: {kafka.count()} of {n_events} messages")
        return {"seconds": seconds, "n_events": n_events - n_before, "client_cpu_s": client_cpu_s,
                "backend_cpu_s": backend_cpu_s,
                "peak_mib": memory_mib(process.pid, "VmHWM")}
