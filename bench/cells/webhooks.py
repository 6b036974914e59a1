"""A backlog to webhook receivers that take their time: so many requests in flight, as fast as it goes.

By the url in the configuration, as a row of courier.receiver, by TLS, and as ten rows. No more than in
flight / latency is possible. With receivers that answer at once the bare loop (bench/bare/http.c) takes
turns: it posts the same requests over as many kept connections, and has no events to read and to settle.
"""

import time
from typing import NamedTuple

from load import empty
from rig import await_true, cpu_s, figure, memory_mib, progress, run_bare

URL, ROW, TLS, ROWS = "url", "receiver", "url by TLS", "ten receivers"
BARE, BARE_TLS = "bare loop", "bare loop by TLS"
TEN = 10


class Case(NamedTuple):
    """Events so many that opening the connections is a small part; in flight at all receivers together."""
    delay_ms: int
    in_flight: int
    n_events: int
    kinds: tuple

    def answers(self):
        after = f"after {self.delay_ms} ms" if self.delay_ms else "at once"
        return f"answers {after}, {self.in_flight:,} in flight"


CASES = [Case(0, 256, 120_000, (URL, BARE, ROW, TLS, BARE_TLS)),
         Case(20, 256, 30_000, (URL, ROW)),
         Case(100, 256, 13_000, (URL, ROW)),
         Case(100, 1000, 80_000, (URL, ROW)),
         Case(1000, 10_000, 12_000, (ROWS,))]
RATE_TARGETS = {(0, 256, URL): ">= 50,000", (100, 1000, URL): ">= 9,700",
                (100, 1000, ROW): ">= 9,700", (1000, 10_000, ROWS): ">= 9,500"}
CPU_TARGETS = {(0, 256, URL): "<= 20"}
PEAK_TARGETS = {(1000, 10_000, ROWS): "<= 150"}


def load(rig, n_events):
    """Events of as many keys, so that order: key lets all of them go side by side."""
    rig.sql("TRUNCATE courier.outbox")
    rig.sql("""
        INSERT INTO courier.outbox (topic, key, type, payload)
        SELECT 'orders.created', 'customer-' || n, 'order',
               (rpad('{"n": ' || n || ', "note": "', 254, 'x') || '"}')::json
        FROM generate_series(1, %s) AS n""", n_events)
    rig.sql("VACUUM (ANALYZE) courier.outbox")


def sink_of(rig, kind, port, in_flight, options=""):
    # So many can only be in flight if as many are claimed, and more while the first are settled.
    limits = f"max_in_flight: {max(1000, 4 * in_flight)}{options}"
    if kind in (URL, TLS):
        url = (f'"https://127.0.0.1:{port}/1", ca_file: "{rig.certificate()}"' if kind == TLS
               else f'"http://127.0.0.1:{port}/1"')
        return ("{ name: hooks, topics: ['**'], start: beginning, concurrency: %d, %s, http: { url: %s } }"
                % (in_flight, limits, url))
    n_rows = rows_of(kind)
    rig.sql("""
        INSERT INTO courier.receiver (sink, name, url, start, concurrency)
        SELECT 'hooks', 'row-' || n, format('http://127.0.0.%%s:%%s/%%s', n, %s, n), 'beginning', %s
        FROM generate_series(1, %s) AS n""", port, in_flight // n_rows, n_rows)
    return ("{ name: hooks, topics: ['**'], %s, http: { receivers: table, allow_networks: [127.0.0.0/8],"
            " allow_ports: [%d] } }" % (limits, port))


def rows_of(kind):
    return TEN if kind == ROWS else 1


def measure(rig, kind, case, options=""):
    """From the lane's being owned to the last answer."""
    n_requests = case.n_events * rows_of(kind)
    rig.forget()
    with rig.receiver(case.delay_ms, tls=kind == TLS) as receiver:
        with rig.relay("webhooks", [sink_of(rig, kind, receiver.port, case.in_flight, options)],
                       n_lanes=rows_of(kind)) as relay:
            backends = rig.backends("webhooks")
            await_true(lambda: relay.is_alive() and receiver.count() >= n_requests, "full receiver")
            cpu, of_backends = cpu_s(relay.pid), sum(cpu_s(pid) for pid in backends)
            peak_mib = memory_mib(relay.pid, "VmHWM")
            time.sleep(case.delay_ms / 1000)
        requests = receiver.requests()
        if (len(requests) != n_requests
                or len({(n, receiver) for _, _, n, receiver in requests}) != n_requests):
            raise RuntimeError(f"{len(requests)} requests for {n_requests} deliveries")
        ended_us = max(arrived for _, arrived, _, _ in requests) + case.delay_ms * 1000
    return {"per_s": n_requests / (ended_us - relay.owned_us()[0]) * 1e6, "peak_mib": peak_mib,
            "cpu_us": cpu * 1e6 / n_requests, "backends_us": of_backends * 1e6 / n_requests}


def measure_bare(rig, kind, case):
    with rig.receiver(case.delay_ms, tls=kind == BARE_TLS) as receiver:
        result = run_bare(rig, "http", [receiver.port, case.n_events, case.in_flight,
                                        *(["tls"] if kind == BARE_TLS else [])])
        if receiver.count() != case.n_events:
            raise RuntimeError(f"{receiver.count()} requests of {case.n_events}")
    return {"per_s": case.n_events / result["seconds"],
            "cpu_us": result["client_cpu_s"] * 1e6 / case.n_events}


def run(rig):
    lines = []
    empty(rig)
    for case in CASES:
        load(rig, case.n_events)
        results = {kind: [] for kind in case.kinds}
        for turn in range(1, rig.repeat + 1):
            for kind in case.kinds if turn % 2 else reversed(case.kinds):
                progress(f"turn {turn} of {rig.repeat}: {kind}, {case.answers()}")
                of_kind = measure_bare if kind in (BARE, BARE_TLS) else measure
                results[kind].append(of_kind(rig, kind, case))
        for kind, turns in results.items():
            lines += figures(case, kind, turns)
        lines += ratios(case, results)
    empty(rig)
    return lines


def figures(case, kind, turns):
    what, run_of = f"{kind}, {case.answers()}", (case.delay_ms, case.in_flight, kind)
    rates = [turn["per_s"] for turn in turns]
    if kind in (BARE, BARE_TLS):
        return [figure(what, "per s", rates),
                figure(f"{what}: its CPU", "us each", [turn["cpu_us"] for turn in turns])]
    lines = [figure(what, "per s", rates, RATE_TARGETS.get(run_of))]
    if case.delay_ms > 0:
        lines.append(figure(f"{what}: of what is possible", "ratio",
                            [rate * case.delay_ms / 1000 / case.in_flight for rate in rates]))
    return lines + [
        figure(f"{what}: CPU of the relay", "us each", [turn["cpu_us"] for turn in turns],
               CPU_TARGETS.get(run_of)),
        figure(f"{what}: CPU of its backends", "us each", [turn["backends_us"] for turn in turns],
               in_table=False),
        figure(f"{what}: peak resident memory", "MiB", [turn["peak_mib"] for turn in turns],
               PEAK_TARGETS.get(run_of), in_table=run_of in PEAK_TARGETS)]


def ratios(case, results):
    """Of neighbours in time: the machine's pace changes between turns more than within one."""
    return [figure(f"{case.answers()}: {kind} to {other}", "ratio",
                   [one["per_s"] / two["per_s"] for one, two in zip(results[kind], results[other])], target)
            for kind, other, target in ((URL, BARE, ">= 0.6"), (TLS, URL, ">= 0.7"), (TLS, BARE_TLS, None))
            if kind in results and other in results]
