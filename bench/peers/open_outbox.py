"""Open Outbox Relay: a table of its own, polled; rows are leased and marked by UPDATE, and kept.

Settings: larger batches than its default of 100, four relays for a backlog (tried: one, two, four and
eight), and a shorter poll than its 500 ms where latency counts.
"""

import os

from peers.peer import AT_ONCE, DRAIN, KEY, LATENCY, PAYLOAD, SLOW, Peer
from rig import free_port

TABLE = "public.openoutbox_events"


class OpenOutbox(Peer):
    name = "Open Outbox Relay"
    n_events = {DRAIN: 40_000}
    # Events of a batch, the rest when there are none, relays.
    settings = {DRAIN: ("1000", "500ms", 4), LATENCY: ("1000", "10ms", 1)}
    publish = f"""INSERT INTO {TABLE} (event_id, event_type, partition_key, payload)
        VALUES (gen_random_uuid(), 'events', 'customer-' || :n % 1000, convert_to(:payload, 'UTF8'))"""
    fill_sql = f"""INSERT INTO {TABLE} (event_id, event_type, partition_key, payload)
        SELECT gen_random_uuid(), 'events', {KEY}, convert_to({PAYLOAD}, 'UTF8')
        FROM generate_series(%s, %s) AS n"""
    tables = TABLE

    def missing(self):
        if not os.path.exists(f"{self.home}/open-outbox/relay"):
            return "Go's registry does not have its module: scripts/deps --peers could not get it"
        return None

    def cannot(self, purpose):
        return "it has no webhooks" if purpose in (AT_ONCE, SLOW) else None

    def version(self):
        with open(f"{self.home}/open-outbox/version", encoding="ascii") as file:
            return file.read().strip()

    def create(self):
        with open(f"{self.home}/open-outbox/open-outbox.sql", encoding="utf-8") as file:
            self.rig.sql(file.read())

    def commands(self, target, purpose):
        batch, poll, n_relays = self.settings[purpose]
        port = free_port(n_relays)
        settings = {"STORAGE_URL": self.url(), "PUBLISHER_TYPE": "redis",
                    "PUBLISHER_URL": f"redis://127.0.0.1:{target.removeprefix('redis:')}",
                    "BATCH_SIZE": batch, "POLL_INTERVAL": poll,
                    "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}
        return [([f"{self.home}/open-outbox/relay"], {**settings, "SERVER_PORT": f"127.0.0.1:{port + i}"})
                for i in range(n_relays)]
