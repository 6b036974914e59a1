"""A backlog to one webhook receiver that takes its time: 256 requests in flight, as fast as it goes.

Once with the receiver's url in the configuration, once as a row of courier.endpoint.
"""

import time

from rig import await_true, cpu_s, figure, progress

IN_FLIGHT = 256
EVENTS = {100: 15_000, 20: 40_000, 0: 60_000}
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


def sink_of(rig, kind, port):
    if kind == FIXED:
        return ("{ name: hooks, topics: ['**'], start: beginning, concurrency: %d, http: "
                '{ url: "http://127.0.0.1:%d/1" } }' % (IN_FLIGHT, port))
    rig.sql("INSERT INTO courier.endpoint (sink, name, url, start, concurrency)"
            " VALUES ('hooks', 'one', %s, 'beginning', %s)", f"http://127.0.0.1:{port}/1", IN_FLIGHT)
    return ("{ name: hooks, topics: ['**'], http: { endpoints: table, allow_networks: [127.0.0.0/8],"
            " allow_ports: [%d] } }" % port)


def measure(rig, kind, delay_ms):
    """From the lane's being owned to the last answer."""
    n_events = EVENTS[delay_ms]
    rig.forget()
    with rig.receiver(delay_ms) as receiver:
        with rig.relay("webhooks", [sink_of(rig, kind, receiver.port)]) as relay:
            await_true(lambda: relay.is_alive() and receiver.count() >= n_events, "full receiver")
            cpu = cpu_s(relay.pid)
            time.sleep(delay_ms / 1000)
        requests = receiver.requests()
        if len(requests) != n_events or len({n for _, _, n, _ in requests}) != n_events:
            raise RuntimeError(f"{len(requests)} requests for {n_events} events")
        ended_us = max(arrived for _, arrived, _, _ in requests) + delay_ms * 1000
    return {"per_s": n_events / (ended_us - relay.owned_us()[0]) * 1e6,
            "cpu_us": cpu * 1e6 / n_events}


def run(rig):
    results = {(kind, delay): [] for delay in EVENTS for kind in (FIXED, ENDPOINT)}
    for delay in EVENTS:
        load(rig, EVENTS[delay])
        for turn in range(1, rig.repeat + 1):
            for kind in (FIXED, ENDPOINT):
                results[kind, delay].append(measure(rig, kind, delay))
            progress(f"  answers after {delay} ms, {turn} of {rig.repeat}: " + ", ".join(
                f"{kind} {results[kind, delay][-1]['per_s']:,.0f}/s" for kind in (FIXED, ENDPOINT)))
    rig.sql("TRUNCATE courier.outbox")
    rig.has_backlog = False
    return [one for (kind, delay), of_it in results.items() for one in (
        figure(f"{kind}, {IN_FLIGHT} in flight, answers after {delay} ms", "requests/s",
               [result["per_s"] for result in of_it]),
        figure(f"{kind}, answers after {delay} ms: CPU of the relay", "us each",
               [result["cpu_us"] for result in of_it]))]
