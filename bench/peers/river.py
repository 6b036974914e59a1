"""River: jobs in a table, fetched in batches by UPDATE, completed in batches by UPDATE, and kept for a day.

Settings: many workers, and a shorter rest between fetches than 100 ms, which its throughput is limited by.
Tried for a backlog: 100 and 1000 workers and 1 ms, 2000 and 10 ms, 5000 and 100 ms, two processes.
"""

from peers.peer import AT_ONCE, DRAIN, LATENCY, PAYLOAD, SLOW, GoPeer


class River(GoPeer):
    name, program = "River", "river"
    n_events = {DRAIN: 40_000, AT_ONCE: 20_000, SLOW: 10_000}
    settings = {DRAIN: ("2000", "10ms"), AT_ONCE: ("256", "1ms"), SLOW: ("1000", "1ms"),
                LATENCY: ("100", "1ms")}
    publish = """WITH job AS (
            INSERT INTO river.river_job (args, kind, max_attempts)
            VALUES (:payload::jsonb, 'deliver', 25 + 0 * (:n)::integer) RETURNING id)
        SELECT pg_notify('river.river_insert', '{"queue":"default"}') FROM job"""
    # Its client notifies at most once in FetchCooldown, which is of one insert in fifty there.
    publish_busily = publish + " WHERE random() < 0.02"
    fill_sql = f"""INSERT INTO river.river_job (args, kind, max_attempts)
        SELECT {PAYLOAD}::jsonb, 'deliver', 25 FROM generate_series(%s, %s) AS n"""
    tables = "river.river_job"

    def version(self):
        return self.run("go", "version", "-m", f"{self.home}/bin/river").split(
            "github.com/riverqueue/river\t")[1].split()[0].removeprefix("v")

    def create(self):
        self.run(f"{self.home}/bin/river", self.url(), "setup")

    def commands(self, target, purpose):
        return [([f"{self.home}/bin/river", self.url(), target, *self.settings[purpose]], {})]
