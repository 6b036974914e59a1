"""Debezium Server with its outbox event router, and its sink for Redis or for HTTP.

Settings: bench/debezium.py, and batches of 2000 for Redis (tried: 500, its default). Its sink for HTTP sends
one request at a time.
"""

from contextlib import contextmanager

from debezium import NEW_SLOT, SETUP, Debezium
from peers.peer import AT_ONCE, DRAIN, HTTP, KEY, LATENCY, PAYLOAD, REDIS, SLOW, Peer, Program

TABLE = "baseline.debezium"
SINKS = {REDIS: """
debezium.sink.type=redis
debezium.sink.redis.address=127.0.0.1:{port}
debezium.sink.redis.batch.size=2000
""", HTTP: """
debezium.sink.type=http
debezium.sink.http.url=http://127.0.0.1:{port}/1
"""}
FILL = f"""INSERT INTO {TABLE} SELECT gen_random_uuid(), 'events', {KEY}, 'order', {PAYLOAD}::json
    FROM generate_series(%s, %s) AS n"""


class DebeziumServer(Peer):
    name = Debezium.name
    n_events = {DRAIN: 200_000, AT_ONCE: 15_000, SLOW: 30}
    n_warm = {LATENCY: 10_000, DRAIN: 50_000} # Java compiles meanwhile
    publish = (f"INSERT INTO {TABLE} VALUES (gen_random_uuid(), 'events', 'customer-' || :n % 1000,"
               " 'order', :payload::json)")
    fill_sql, tables = FILL, TABLE

    def version(self):
        return Debezium(self.rig, "").version()

    def create(self):
        self.rig.sql(SETUP)

    def empty(self):
        super().empty()
        self.rig.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        self.rig.sql(NEW_SLOT, "debezium")

    @contextmanager
    def running(self, target, purpose):
        kind, port = target.split(":")
        debezium = Debezium(self.rig, SINKS[kind].format(port=port))
        with debezium.running() as process:
            yield Program(self.name, f"{self.rig.folder}/debezium.log", [process])
