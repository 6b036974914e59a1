"""pg-boss: jobs in a table, fetched in batches by UPDATE and completed by UPDATE, and kept.

Settings: LISTEN and NOTIFY, batches, several workers, and no rest while batches are full. Tried for a
backlog: batches of 100, 500, 1000 and 2000 for ten, four, one and two workers.
"""

import json

from peers.peer import AT_ONCE, DRAIN, JOBS, JOBS_IN_BATCHES, LATENCY, PAYLOAD, SLOW, NodePeer


def work(batch_size, workers):
    return {"batchSize": batch_size, "localConcurrency": workers, "burstWhenBatchFull": True,
            "pollingIntervalSeconds": 0.5}


class PgBoss(NodePeer):
    name = package = "pg-boss"
    n_events = {DRAIN: 40_000, AT_ONCE: 20_000, SLOW: 10_000, JOBS: 10_000}
    settings = {DRAIN: work(2000, 2), AT_ONCE: work(1000, 2), SLOW: work(500, 2), LATENCY: work(50, 4),
                JOBS: work(8, 1), JOBS_IN_BATCHES: work(2000, 2)}
    tables = "pgboss.job"

    def create(self):
        """Publishes as send() does in an application's transaction: by its statement, whose only
        parameter is an array of jobs."""
        statement = json.loads(self.run(*self.node("setup")).splitlines()[-1])
        one = """('[{"data": ' || :payload || '}]' || left((:n)::text, 0))"""
        many = f"(SELECT json_agg(json_build_object('data', {PAYLOAD}::json))::text" \
               " FROM generate_series(%s, %s) AS n)"
        self.publish = statement.replace("$1", one)
        self.fill_sql = statement.replace("%", "%%").replace("$1", many)
