"""What a hundred dead receivers do to nine hundred healthy ones of the same sink, and what many idle ones cost.

Four ways: the healthy ones alone; with as many more that refuse the connection or take it and never
answer; to say what the pace means, a burst to all of them as fast as it goes; and ten thousand
receivers, each with a topic of its own and one event a minute.
"""

import statistics
import time

import psycopg2

from measure import percentile
from rig import await_true, cpu_s, figure, memory_mib, progress, transactions, waited_s

HEALTHY = 900
DEAD = 100
PER_SECOND = 1
WARM_UP_S = 10  # the first events open the connections
SECONDS = 20
IDLE_S = 3
BURST = 40
TOPIC = "orders.created"
TENANTS = 10_000
EVERY_S = 60  # an event for each
NONE_DEAD, SOME_DEAD = "none dead", f"{DEAD} dead"


def add_receivers(rig, receiver, n_dead):
    """Each on an address of its own, so that nothing is shared between their connections."""
    rig.forget()
    rig.sql("TRUNCATE courier.outbox")
    for first, count, port in [(0, HEALTHY, receiver.port),
                               (HEALTHY, n_dead // 2, receiver.closed_port),
                               (HEALTHY + n_dead // 2, n_dead - n_dead // 2, receiver.silent_port)]:
        rig.sql("""
            INSERT INTO courier.receiver (sink, name, url)
            SELECT 'hooks', 'receiver-' || n,
                   format('http://127.1.%%s.%%s:%%s/%%s', n / 250, 1 + n %% 250, %s, n)
            FROM generate_series(%s, %s) AS n""", port, first, first + count - 1)
    rig.sql("VACUUM (ANALYZE) courier.receiver, courier.outbox, courier.cursor")


def start_relay(rig, receiver, n_lanes):
    ports = f"{receiver.port}, {receiver.silent_port}, {receiver.closed_port}"
    return rig.relay("fanout", ["{ name: hooks, topics: ['**'], http: { receivers: table, allow_ports: [%s],"
                                " allow_networks: [127.0.0.0/8] } }" % ports], n_lanes=n_lanes)


def publish(rig, n_events, first, per_second=PER_SECOND, topic=lambda number: TOPIC):
    """At the pace; each event says when its publishing began."""
    connection = psycopg2.connect(rig.dsn("app"))
    connection.autocommit = True
    cursor = connection.cursor()
    began = time.monotonic()
    for number in range(first, first + n_events):
        time.sleep(max(0.0, began + (number - first) / per_second - time.monotonic()))
        body = '{"n": %d, "at": %d, "note": "' % (number, time.time_ns() // 1000)
        cursor.execute("SELECT courier.publish(%s, %s, key => %s, type => 'order')",
                       (topic(number), body.ljust(254, "x") + '"}', f"customer-{number}"))
    time.sleep(max(0.0, began + n_events / per_second - time.monotonic()))
    connection.close()


def at_a_pace(rig, n_dead):
    n_warm_up, n_events = WARM_UP_S * PER_SECOND, SECONDS * PER_SECOND
    watcher = rig.watcher()
    with rig.receiver() as receiver:
        add_receivers(rig, receiver, n_dead)
        with start_relay(rig, receiver, HEALTHY + n_dead) as relay:
            backends = rig.backends("fanout")
            publish(rig, n_warm_up, 0)
            cpu, postgres_cpu = cpu_s(relay.pid), sum(cpu_s(pid) for pid in backends)
            waited = waited_s(relay.pid)
            before, began = transactions(watcher), time.monotonic()
            publish(rig, n_events, n_warm_up)
            seconds = time.monotonic() - began
            result = {"transactions": (transactions(watcher) - before - n_events) / seconds,
                      "waited": 100 * (waited_s(relay.pid) - waited) / seconds,
                      "relay_cpu": 100 * (cpu_s(relay.pid) - cpu) / seconds,
                      "backend_cpu": 100 * (sum(cpu_s(pid) for pid in backends) - postgres_cpu)
                                     / seconds}
            await_true(lambda: relay.is_alive()
                       and receiver.count() >= HEALTHY * (n_warm_up + n_events),
                       "arrival of all events", interval_s=0.2)
            result["peak_mib"] = memory_mib(relay.pid, "VmHWM")
        requests = [one for one in receiver.requests() if one[2] >= n_warm_up]
    watcher.connection.close()
    if len({(n, receiver) for _, _, n, receiver in requests}) != HEALTHY * n_events:
        raise RuntimeError("a healthy receiver did not get all")
    took_ms = {}
    for at, arrived, n, _ in requests:
        took_ms.setdefault(n, []).append((arrived - at) / 1000)
    every = [one for of_event in took_ms.values() for one in of_event]
    return {**result, "p50_ms": percentile(every, 50), "p99_ms": percentile(every, 99),
            "event_p99_ms": statistics.median(percentile(one, 99) for one in took_ms.values())}


def burst(rig):
    """Deliveries per second of a backlog that is committed at once."""
    with rig.receiver() as receiver:
        add_receivers(rig, receiver, 0)
        with start_relay(rig, receiver, HEALTHY) as relay:
            publish(rig, PER_SECOND, 0)
            await_true(lambda: receiver.count() >= HEALTHY * PER_SECOND, "first events")
            before_cpu, began = cpu_s(relay.pid), time.monotonic()
            rig.sql("""
                INSERT INTO courier.outbox (topic, key, type, payload)
                SELECT %s, 'customer-' || n, 'order',
                       (rpad('{"n": ' || n || ', "note": "', 254, 'x') || '"}')::json
                FROM generate_series(1, %s) AS n""", TOPIC, BURST)
            await_true(lambda: relay.is_alive()
                       and receiver.count() >= HEALTHY * (PER_SECOND + BURST),
                       "arrival of the burst", interval_s=0.005)
            return {"per_s": HEALTHY * BURST / (time.monotonic() - began),
                    "cpu_us": (cpu_s(relay.pid) - before_cpu) * 1e6 / (HEALTHY * BURST)}


def add_tenants(rig, receiver):
    rig.forget()
    rig.sql("TRUNCATE courier.outbox")
    rig.sql("""
        INSERT INTO courier.receiver (sink, name, url, topics)
        SELECT 'hooks', 'tenant-' || n, format('http://127.1.%%s.%%s:%%s/%%s', n / 250, 1 + n %% 250, %s, n),
               ARRAY['tenant.' || n || '.**']
        FROM generate_series(0, %s - 1) AS n""", receiver.port, TENANTS)
    rig.sql("VACUUM (ANALYZE) courier.receiver, courier.outbox, courier.cursor")


def first_of_each(rig):
    """So that every connection is open, and all that a receiver is kept for is there."""
    rig.sql("""
        INSERT INTO courier.outbox (topic, key, type, payload)
        SELECT 'tenant.' || n || '.order', 'customer-' || n, 'order',
               (rpad('{"n": ' || n || ', "note": "', 254, 'x') || '"}')::json
        FROM generate_series(0, %s - 1) AS n""", TENANTS)


def tenants(rig):
    """An event a minute for each of so many receivers, which none of the others takes."""
    with rig.receiver() as receiver:
        add_tenants(rig, receiver)
        with start_relay(rig, receiver, TENANTS) as relay:
            backends = rig.backends("fanout")
            first_of_each(rig)
            await_true(lambda: relay.is_alive() and receiver.count() >= TENANTS,
                       "first event of each", interval_s=0.2)
            time.sleep(IDLE_S)  # until their progress is written
            n_events = SECONDS * TENANTS // EVERY_S
            cpu, of_backends = cpu_s(relay.pid), sum(cpu_s(pid) for pid in backends)
            began = time.monotonic()
            publish(rig, n_events, TENANTS, TENANTS / EVERY_S,
                    lambda number: f"tenant.{number * 7 % TENANTS}.order")
            seconds = time.monotonic() - began
            result = {"relay_cpu": 100 * (cpu_s(relay.pid) - cpu) / seconds,
                      "backend_cpu": 100 * (sum(cpu_s(pid) for pid in backends) - of_backends) / seconds}
            await_true(lambda: relay.is_alive() and receiver.count() >= TENANTS + n_events, "arrival of all")
            result |= {"rss_mib": memory_mib(relay.pid, "VmRSS"), "peak_mib": memory_mib(relay.pid, "VmHWM")}
        requests = receiver.requests(TENANTS)
    if any(n * 7 % TENANTS != receiver for _, _, n, receiver in requests):
        raise RuntimeError("a receiver got what is for another")
    return {**result, "p50_ms": percentile([(arrived - at) / 1000 for at, arrived, _, _ in requests], 50)}


def run(rig):
    results = {NONE_DEAD: [], SOME_DEAD: []}
    bursts, of_tenants = [], []
    for turn in range(1, rig.repeat + 1):
        bursts.append(burst(rig))
        progress(f"  {turn} of {rig.repeat}: burst {bursts[-1]['per_s']:,.0f} deliveries/s")
        ways = [(NONE_DEAD, 0), (SOME_DEAD, DEAD)]
        for name, n_dead in ways if turn % 2 else reversed(ways):
            results[name].append(at_a_pace(rig, n_dead))
            progress(f"  {turn} of {rig.repeat}, {name}: " + ", ".join(
                f"{what} {value:.1f}" for what, value in results[name][-1].items()))
        of_tenants.append(tenants(rig))
        progress(f"  {turn} of {rig.repeat}, {TENANTS:,} receivers: " + ", ".join(
            f"{what} {value:.1f}" for what, value in of_tenants[-1].items()))
    rig.forget()
    rig.sql("TRUNCATE courier.outbox, courier.parked")
    rig.has_backlog = False
    figures = [figure(f"{HEALTHY} receivers, a burst", "per s", [one["per_s"] for one in bursts],
                      ">= 35,000"),
               figure("a burst: CPU of the relay", "us each", [one["cpu_us"] for one in bursts])]
    for name, of_it in results.items():
        figures += [figure(f"{HEALTHY * PER_SECOND}/s, {name}: {what}", unit, [one[key] for one in of_it],
                           "<= 20" if (name, key) == (NONE_DEAD, "p50_ms") else None)
                    for what, unit, key in (
                        ("publish to arrival, p50", "ms", "p50_ms"),
                        ("publish to arrival, p99", "ms", "p99_ms"),
                        ("p99 of one event, median of all", "ms", "event_p99_ms"),
                        ("peak resident memory", "MiB", "peak_mib"),
                        ("transactions in PostgreSQL", "per s", "transactions"),
                        ("CPU of the relay", "%", "relay_cpu"),
                        ("the relay waited for a core", "%", "waited"),
                        ("CPU of its PostgreSQL backends", "%", "backend_cpu"))]
    figures += [figure(f"{TENANTS:,} receivers, an event a minute for each: {what}", unit,
                       [one[key] for one in of_tenants], target)
                for what, unit, key, target in (
                    ("CPU of the relay", "% of a core", "relay_cpu", "< 5"),
                    ("CPU of its PostgreSQL backends", "% of a core", "backend_cpu", None),
                    ("resident memory", "MiB", "rss_mib", "< 120"),
                    ("peak resident memory", "MiB", "peak_mib", None),
                    ("publish to arrival, p50", "ms", "p50_ms", None))]
    # Of neighbours in time: the machine's pace changes between pairs more than within one.
    return figures + [figure(f"{what}, {SOME_DEAD} to {NONE_DEAD}", "ratio", [
        dead[key] / alive[key] for alive, dead in zip(results[NONE_DEAD], results[SOME_DEAD])], target)
        for what, key, target in (("p50", "p50_ms", None), ("p99", "p99_ms", "<= 1.1"),
                                  ("p99 of one event", "event_p99_ms", None))]
