"""The cost model of docs/scaling.md: what a rate of events takes, by the constants that the cell scaling measured.

Rates are of events a second. Cores are those of the machine that was measured.
"""

from typing import NamedTuple

KINDS = ["redis", "nats", "rabbitmq", "stdout", "kafka", "http", "email"]
PUBLISHED = {"own": "one INSERT per transaction", "added": "an INSERT more in a transaction",
             "bulk": "100 rows per INSERT"}
LOW, HIGH, SHARDS = 1_000, 10_000, 64
AWAKE, AWAKE_IN_TENS = "1,000/s", "10,000/s in tens"


class Sink(NamedTuple):
    kind: str
    share: float  # of all events: what it delivers


class Load(NamedTuple):
    per_s: int  # of one database
    published: str
    sinks: tuple
    relays: int
    shards: int  # of each sink
    retention_h: int


class Model:
    """`value` gives the median of a figure of the cell scaling, `idle` that of the cell relays."""

    def __init__(self, value, idle):
        self.value = value
        self.publish_us = {how: value(f"publishing, {name}: CPU of the backend") for how, name in PUBLISHED.items()}
        self.publish_wal = {how: value(f"publishing, {name}: WAL") for how, name in PUBLISHED.items()}
        self.disk = value("an event in the outbox")
        self.read_us = value("backlog, 1 shard: CPU of the backends")
        self.skip_us = value("backlog, an event of another relay's shard: CPU of the backends")
        self.shard_us = (value(f"backlog, {SHARDS} shards: CPU of the backends") - self.read_us) / (SHARDS - 1)
        self.shard_wal = (value(f"backlog, {SHARDS} shards: WAL") - value("backlog, 1 shard: WAL")) / (SHARDS - 1)
        self.awake_cores = (value(f"{AWAKE}, 1 shard: CPU of the backends") - self.read_us) * LOW / 1e6
        self.relay_us = {kind: value(f"backlog to {kind}: CPU of the relay") for kind in KINDS}
        self.null_us = value("backlog, 1 shard: CPU of the relay")
        self.relay_awake_cores = (value(f"{AWAKE}, 1 shard: CPU of the relay") - self.null_us) * LOW / 1e6
        self.idle_cores = (idle("8 idle relays, 64 shards: CPU of PostgreSQL")
                           - idle("1 idle relays, 64 shards: CPU of PostgreSQL")) / 100 / 7

    # Of PostgreSQL, in cores.

    def publishing(self, load):
        return load.per_s * self.publish_us[load.published] / 1e6

    def read_each_us(self, load):
        """For an event and a sink: read once, and read past by the other relays."""
        own_shards = load.shards / load.relays
        return self.read_us + self.shard_us * max(0, own_shards - 1) + self.skip_us * (load.relays - 1)

    def reading(self, load):
        return load.per_s * len(load.sinks) * self.read_each_us(load) / 1e6

    def awake(self, load):
        return load.relays * len(load.sinks) * self.awake_cores

    def database(self, load):
        return self.publishing(load) + self.reading(load) + self.awake(load)

    # Of all relays together, in cores.

    def delivering(self, load):
        return sum(load.per_s * sink.share * self.relay_us[sink.kind] for sink in load.sinks) / 1e6

    def relays(self, load):
        return self.delivering(load) + load.relays * len(load.sinks) * self.relay_awake_cores

    def wal_bytes(self, load):
        """A second, of those who publish and of what is settled."""
        shards = max(0, load.shards / load.relays - 1)
        return load.per_s * (self.publish_wal[load.published] + len(load.sinks) * self.shard_wal * shards)

    def disk_bytes(self, load):
        """Of the outbox, with the eighth that partitions may keep longer."""
        return load.per_s * self.disk * load.retention_h * 3600 * 9 / 8
