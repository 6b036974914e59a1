"""A backlog as fast as it goes: pgcourier beside the classic strategies, PgQ and redis-benchmark.

To a sink that goes nowhere, to Redis Streams and to a webhook receiver that answers at once; in
batches of 100 and 1000. What is compared are rates: a slow strategy gets fewer events, so that none
takes much longer than the others. The ceiling for Redis is redis-benchmark sending the same bytes,
pipelined, without any database.
"""

import statistics
import subprocess

from progress import progress
from rig import KEYS, PAYLOAD_BYTES, TOPICS, cpu_s, figure
from strategies import (ADVISORY_LOCK, BASELINES, COURIER, DEFAULT, HTTP, LEASE, LONG_TRANSACTION, NULL, PGQ,
                        REDIS, SERIALISED_WRITERS, STRATEGIES, XID_CURSOR, create, measure)

BATCHES = [1000, 100]
# How many of the backlog's events each gets; to the receiver all get as many.
SHARE = {COURIER: 1, XID_CURSOR: 0.4, SERIALISED_WRITERS: 0.4, PGQ: 0.4, ADVISORY_LOCK: 0.4,
         LONG_TRANSACTION: 0.3, LEASE: 0.2}
HTTP_SHARE = 0.04
PIPELINES = [50, 1000]
TARGETS = {(NULL, 1000): ">= 600,000", (REDIS, 1000): ">= 300,000", (HTTP, 1000): ">= 20,000"}


def reference(rig, pipeline):
    """XADD with the fields of an event of the backlog: commands per second, and what Redis used."""
    payload = '{"order": 123456, "note": "'.ljust(PAYLOAD_BYTES - 2, "x") + '"}'
    fields = {"id": "00000000-0000-4000-8000-000000000000", "topic": TOPICS[0],
              "key": f"customer-{KEYS // 2}", "type": "order",
              "time": "2024-01-31T23:59:59.123456Z", "payload": payload}
    words = [word for field in fields.items() for word in field]
    rig.redis.flushall()
    redis_pid = rig.redis.info("server")["process_id"]
    redis_before_s = cpu_s(redis_pid)
    header, line = subprocess.run(
        ["redis-benchmark", "-s", f"{rig.folder}/redis.sock", "-P", str(pipeline), "-c", "1", "-n",
         str(rig.events), "--csv", "XADD", f"events:{TOPICS[0]}", "*", *words],
        check=True, text=True, capture_output=True).stdout.splitlines()
    # The first column is the whole command, with whatever quotes and commas it holds.
    rate = float(line.rsplit('","', header.count(","))[header.split(",").index('"rps"')])
    return {"events_per_s": rate, "redis_cpu_s": cpu_s(redis_pid) - redis_before_s,
            "n_events": rig.events}


def rounded(n_events):
    """Whole batches of each topic."""
    step = len(TOPICS) * max(BATCHES)
    return max(step, int(n_events) // step * step)


def prepare(rig, shares):
    """The tables of all baselines, filled from the outbox; who gets how many."""
    create(rig)
    n_events = {strategy: rounded(share * rig.events) for strategy, share in shares.items()}
    n_events[COURIER] = rig.sql("SELECT count(*) FROM courier.outbox")[0][0]
    for strategy in BASELINES:
        progress(f"filling the tables of {strategy.name}")
        strategy.prepare(rig, n_events[strategy])
    rig.sql("CHECKPOINT")
    return n_events


def rounds(rig, n_events, kinds, results):
    """All strategies in turn, so that a slow minute of the machine does not meet only one."""
    for turn in range(1, rig.repeat + 1):
        rig.sql("CHECKPOINT")
        for kind in kinds:
            for pipeline in PIPELINES if kind == REDIS else []:
                results.setdefault(("reference", pipeline), []).append(reference(rig, pipeline))
            for batch in [DEFAULT, *BATCHES]:
                chosen = [COURIER] if batch == DEFAULT else STRATEGIES
                for strategy in chosen if turn % 2 else reversed(chosen):
                    result = measure(rig, strategy, n_events[strategy], batch, kind)
                    results.setdefault((kind, batch, strategy.name), []).append(result)
                    progress(f"{turn} of {rig.repeat}, {kind}, batch {batch}: {strategy.name}"
                             f" {result['events_per_s']:,.0f}/s")


def values(results, key, name="events_per_s"):
    return [result[name] for result in results[key]]


def rate(results, *key):
    """Of the medians: a neighbour on the machine disturbs one run, not the pair of them."""
    return statistics.median(values(results, key))


def rates(results, kind):
    figures = []
    for batch in BATCHES:
        for strategy in STRATEGIES:
            key, target = (kind, batch, strategy.name), None
            if strategy is COURIER:
                target = TARGETS.get((kind, batch))
            figures.append(figure(f"{kind}, batch {batch}: {strategy.name}", "events/s",
                                  values(results, key), target))
            for what in ("n_events", "client_cpu_s", "backend_cpu_s", "redis_cpu_s", "peak_mib"):
                figures.append(figure(f"{kind}, batch {batch}: {strategy.name}, {what}", "",
                                      values(results, key, what), in_table=False))
    figures.append(figure(f"{kind}, default settings: {COURIER.name}", "events/s",
                          values(results, (kind, DEFAULT, COURIER.name))))
    return figures


def ratios(results, kind):
    """By default settings, to what the sink takes; and of batches, to the others of the same size."""
    default = rate(results, kind, DEFAULT, COURIER.name)
    figures = []
    if kind == REDIS:
        figures.append(figure(f"{kind}, default settings: pgcourier to redis-benchmark -P 50", "ratio",
                              [default / rate(results, "reference", 50)], ">= 0.75"))
    if kind == NULL:
        cursor = rate(results, NULL, 1000, SERIALISED_WRITERS.name)
        figures.append(figure(f"{kind}, default settings: pgcourier to {SERIALISED_WRITERS.name}",
                              "ratio", [default / cursor], ">= 1"))
    for batch in BATCHES:
        ours = rate(results, kind, batch, COURIER.name)
        what = f"{kind}, batch {batch}: pgcourier to"
        best = max(rate(results, kind, batch, one.name) for one in BASELINES if one.claims_rows)
        against = {one.name: rate(results, kind, batch, one.name) for one in (PGQ, ADVISORY_LOCK)}
        against["the best that claims rows"] = best
        targets = {}
        if kind == REDIS:
            against |= {f"redis-benchmark -P {pipeline}": rate(results, "reference", pipeline)
                        for pipeline in PIPELINES}
            if batch == 1000:
                targets = {PGQ.name: "> 1", "the best that claims rows": ">= 3",
                           "redis-benchmark -P 50": ">= 0.7"}
        figures += [figure(f"{what} {name}", "ratio", [ours / theirs], targets.get(name))
                    for name, theirs in against.items()]
    return figures


def run(rig):
    results = {}
    rig.forget()
    rig.backlog()
    rounds(rig, prepare(rig, SHARE), [NULL, REDIS], results)

    n_http = rounded(HTTP_SHARE * rig.events)
    rig.keep(n_http)
    rounds(rig, prepare(rig, {strategy: HTTP_SHARE for strategy in STRATEGIES}), [HTTP], results)
    rig.forget()
    rig.sql("TRUNCATE courier.outbox")

    references = [figure(f"{REDIS}: redis-benchmark XADD -P {pipeline}", "events/s",
                         values(results, ("reference", pipeline))) for pipeline in PIPELINES]
    return (rates(results, NULL) + ratios(results, NULL)
            + references + rates(results, REDIS) + ratios(results, REDIS)
            + rates(results, HTTP) + ratios(results, HTTP))
