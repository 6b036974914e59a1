"""pgcourier, as the peers are run: by its defaults, but for the requests in flight."""

from contextlib import contextmanager

from peers.peer import AT_ONCE, DRAIN, KEY, LATENCY, PAYLOAD, REDIS, SLOW, Peer

TOPIC = "bench"


class PgCourier(Peer):
    name, stream = "pgcourier", f"events:{TOPIC}"
    n_events = {DRAIN: 300_000, AT_ONCE: 60_000, SLOW: 30_000}
    settings = {DRAIN: "", LATENCY: "", AT_ONCE: "concurrency: 256, max_in_flight: 4000,",
                SLOW: "concurrency: 1000, max_in_flight: 4000,"}
    publish = f"""INSERT INTO courier.outbox (topic, key, type, payload)
        VALUES ('{TOPIC}', 'customer-' || :n % 1000, 'order', :payload::json)"""
    fill_sql = f"""INSERT INTO courier.outbox (topic, key, type, payload)
        SELECT '{TOPIC}', {KEY}, 'order', {PAYLOAD}::json FROM generate_series(%s, %s) AS n"""
    tables = "courier.outbox, courier.parked"

    def version(self):
        return self.run(f"{self.rig.folder}/pgcourier", "version").split()[1]

    def empty(self):
        super().empty()
        self.rig.forget()

    @contextmanager
    def running(self, target, purpose):
        kind, port = target.split(":")
        block = ('redis: { url: "redis://127.0.0.1:%s" }' if kind == REDIS
                 else 'http: { url: "http://127.0.0.1:%s/1" }') % port
        sink = f'{{ name: peer, topics: ["**"], start: beginning, {self.settings[purpose]} {block} }}'
        with self.rig.relay("peer", [sink]) as relay:
            relay.pids = [relay.pid]
            yield relay
