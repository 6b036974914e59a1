"""graphile-worker: jobs in a table, of which it locks as many as its local queue holds, and DELETEs them.

Settings: a local queue and jobs completed in batches, as its page on performance advises. Tried for a
backlog: 24 and 100 jobs at a time, a local queue of 500 and 2000, completion after 0 and 250 ms, two processes.
"""

from peers.peer import AT_ONCE, DRAIN, JOBS, JOBS_IN_BATCHES, LATENCY, PAYLOAD, SLOW, NodePeer


def preset(concurrent_jobs, local_queue, delay_ms):
    return {"concurrentJobs": concurrent_jobs, "maxPoolSize": 25, "localQueue": {"size": local_queue},
            "completeJobBatchDelay": delay_ms, "failJobBatchDelay": delay_ms}


class GraphileWorker(NodePeer):
    name = package = "graphile-worker"
    n_events = {DRAIN: 60_000, AT_ONCE: 20_000, SLOW: 15_000, JOBS: 20_000}
    settings = {DRAIN: preset(100, 2000, 250), AT_ONCE: preset(256, 2000, 250),
                SLOW: preset(1000, 2000, 250), LATENCY: preset(24, 500, 0),
                JOBS: {"concurrentJobs": 8}, JOBS_IN_BATCHES: preset(8, 2000, 250)}
    publish = "SELECT graphile_worker.add_job('deliver', :payload::json) WHERE :n >= 0"
    fill_sql = f"""SELECT count(*) FROM graphile_worker.add_jobs((
        SELECT array_agg(ROW('deliver', {PAYLOAD}::json, NULL, NULL, NULL, NULL, NULL, NULL)
                         ::graphile_worker.job_spec)
        FROM generate_series(%s, %s) AS n))"""
    tables = "graphile_worker._private_jobs"

    def create(self):
        self.run(*self.node("setup"))
