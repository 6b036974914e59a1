"""PgQ with its daemon pgqd and a consumer (bench/peers/go/pgq): batches between two ticks.

Settings: a tick for a thousand events, or after 20 ms; its defaults are 500 and 3 s, looked at each second.
"""

import os
import re

from peers.peer import AT_ONCE, DRAIN, LATENCY, PAYLOAD, SLOW, GoPeer

QUEUE, CONSUMER = "events", "bench"
CONFIG = """[pgqd]
base_connstr = host={folder} user=postgres
initial_database = bench
database_list = bench
syslog = 0
ticker_period = 0.02
"""


class Pgq(GoPeer):
    name, program = "PgQ", "pgq"
    n_events = {DRAIN: 200_000, AT_ONCE: 40_000, SLOW: 20_000}
    settings = {DRAIN: "1", AT_ONCE: "256", SLOW: "1000", LATENCY: "64"} # requests in flight
    publish = (f"SELECT pgq.insert_event('{QUEUE}', 'order', :payload, 'customer-' || :n % 1000,"
               " NULL, NULL, NULL)")
    fill_sql = (f"SELECT count(pgq.insert_event('{QUEUE}', 'order', {PAYLOAD}))"
                " FROM generate_series(%s, %s) AS n")

    def missing(self):
        if not os.path.exists("/usr/bin/pgqd"):
            return "pgqd is not installed: scripts/deps --peers"
        return super().missing()

    def version(self):
        return re.search(r"[\d.]+", self.run("/usr/bin/pgqd", "-V"))[0]

    def create(self):
        self.rig.sql("CREATE EXTENSION IF NOT EXISTS pgq")
        with open(f"{self.rig.folder}/pgqd.ini", "w", encoding="ascii") as file:
            file.write(CONFIG.format(folder=self.rig.folder))

    def empty(self):
        self.rig.sql("SELECT pgq.drop_queue(queue_name, true) FROM pgq.queue")
        for call in ("create_queue(%s)", "set_queue_config(%s, 'ticker_max_count', '1000')",
                     "set_queue_config(%s, 'ticker_max_lag', '20 milliseconds')", "ticker(%s)"):
            self.rig.sql(f"SELECT pgq.{call}", QUEUE)
        self.rig.sql("SELECT pgq.register_consumer(%s, %s)", QUEUE, CONSUMER)

    def fill(self, n_events):
        """A tick after each thousand, as pgqd makes them while there is no consumer."""
        for first in range(1, n_events + 1, 1000):
            self.rig.sql(self.fill_sql, first, min(first + 999, n_events))
            self.rig.sql("SELECT pgq.ticker(%s)", QUEUE)

    def commands(self, target, purpose):
        return [(["/usr/bin/pgqd", "-q", f"{self.rig.folder}/pgqd.ini"], {}),
                ([f"{self.home}/bin/pgq", self.url(), QUEUE, CONSUMER, target, self.settings[purpose],
                  "10ms"], {})]
