"""A backlog to one webhook receiver that takes its time: so many requests in flight, as fast as it goes.

Once with the receiver's url in the configuration, once as a row of courier.endpoint. No more than
in flight / latency is possible; a receiver that answers at once shows what a request costs.
"""

import time

from load import empty
from rig import await_true, cpu_s, figure, progress

# Latency in ms and requests in flight -> events, so that each takes a few seconds.
RUNS = {(100, 256): 13_000, (100, 1000): 40_000, (20, 256): 30_000, (0, 256): 60_000}
RATIO_TARGETS = {(100, 256): ">= 0.97", (100, 1000): ">= 0.9"}
RATE_TARGETS = {(100, 1000): ">= 9,000", (0, 256): ">= 20,000"}
FIXED, ENDPOINT = "url", "endpoint"


def load(rig, n_events):
    """Events of as many keys, so that order: key lets all of them go side by side."""
    rig.sql("TRUNCATE courier.outbox")
    rig.sql("""
        INSERT INTO courier.outbox (topic, key, type, payload)
        SELECT 'orders.created', 'customer-' || n, 'order',
               (rpad('{"n": ' || n || ', "note": "', 254, 'x') || '"}')::json
        FROM generate_series(1, %s) AS n""", n_events)
    rig.sql("VACUUM (ANALYZE) courier.outbox")


def sink_of(rig, kind, port, in_flight):
    # So many can only be in flight if as many are claimed, and more while the first are settled.
    limits = f"max_in_flight: {max(1000, 4 * in_flight)}"
    if kind == FIXED:
        return ("{ name: hooks, topics: ['**'], start: beginning, concurrency: %d, %s, http: "
                '{ url: "http://127.0.0.1:%d/1" } }' % (in_flight, limits, port))
    rig.sql("INSERT INTO courier.endpoint (sink, name, url, start, concurrency)"
            " VALUES ('hooks', 'one', %s, 'beginning', %s)", f"http://127.0.0.1:{port}/1", in_flight)
    return ("{ name: hooks, topics: ['**'], %s, http: { endpoints: table, allow_networks: [127.0.0.0/8],"
            " allow_ports: [%d] } }" % (limits, port))


def measure(rig, kind, delay_ms, in_flight):
    """From the lane's being owned to the last answer."""
    n_events = RUNS[delay_ms, in_flight]
    rig.forget()
    with rig.receiver(delay_ms) as receiver:
        with rig.relay("webhooks", [sink_of(rig, kind, receiver.port, in_flight)]) as relay:
            backends = rig.backends("webhooks")
            await_true(lambda: relay.is_alive() and receiver.count() >= n_events, "full receiver")
            cpu, of_backends = cpu_s(relay.pid), sum(cpu_s(pid) for pid in backends)
            time.sleep(delay_ms / 1000)
        requests = receiver.requests()
        if len(requests) != n_events or len({n for _, _, n, _ in requests}) != n_events:
            raise RuntimeError(f"{len(requests)} requests for {n_events} events")
        ended_us = max(arrived for _, arrived, _, _ in requests) + delay_ms * 1000
    return {"per_s": n_events / (ended_us - relay.owned_us()[0]) * 1e6,
            "cpu_us": cpu * 1e6 / n_events, "backends_us": of_backends * 1e6 / n_events}


def run(rig):
    results = {}
    empty(rig)
    for delay_ms, in_flight in RUNS:
        load(rig, RUNS[delay_ms, in_flight])
        for turn in range(1, rig.repeat + 1):
            for kind in (FIXED, ENDPOINT) if turn % 2 else (ENDPOINT, FIXED):
                progress(f"turn {turn} of {rig.repeat}: answers after {delay_ms} ms, {in_flight} in"
                         f" flight, {kind}")
                results.setdefault((delay_ms, in_flight, kind), []).append(
                    measure(rig, kind, delay_ms, in_flight))
    empty(rig)
    return [one for key, turns in results.items() for one in figures(*key, turns)]


def figures(delay_ms, in_flight, kind, turns):
    """Both kinds are shown; the targets are those of a url."""
    what = f"{kind}, answers after {delay_ms} ms, {in_flight:,} in flight"
    rates = [turn["per_s"] for turn in turns]
    run_of = (delay_ms, in_flight) if kind == FIXED else None
    lines = [figure(what, "per s", rates, RATE_TARGETS.get(run_of))]
    if delay_ms > 0:
        lines.append(figure(f"{what}: of what is possible", "ratio",
                            [rate * delay_ms / 1000 / in_flight for rate in rates],
                            RATIO_TARGETS.get(run_of)))
    return lines + [figure(f"{what}: CPU of the relay", "us each", [turn["cpu_us"] for turn in turns]),
                    figure(f"{what}: CPU of its backends", "us each",
                           [turn["backends_us"] for turn in turns], in_table=False)]
