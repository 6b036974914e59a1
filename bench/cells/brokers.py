"""NATS JetStream, RabbitMQ and Kafka: pgcourier beside a bare client of each, Kafka beside Debezium.

A backlog as fast as it goes, in turns; the bare client (bench/bare) sends the same messages, 1000 in
flight, without any database. To Kafka in turns with Debezium Server, too. Then the time from COMMIT
to the acknowledgement, as the relay's log has it, beside what the broker alone takes to acknowledge a
message of the bare client at that pace; the rate of a single key, of which one event is in
flight at a time, beside a bare client that does the same; and what a relay costs that has nothing to
do, or a broker that is down.
"""

import statistics
import time

import pace
from brokers import PACE, KafkaBroker, brokers
from debezium import KAFKA, Debezium
from load import empty
from measure import acknowledged_us, log_lines
from progress import progress
from rig import await_true, cpu_s, figure, free_port, memory_mib, process_cpu_s
from strategies import COURIER

BATCH = 1000  # of pgcourier's pages; its keys keep it at a thousand in flight, as the bare clients
SHARES = {"nats": 1, "kafka": 1, "rabbitmq": 0.2}  # of the backlog: slower ones get less
TARGETS = {"nats": ">= 100,000", "rabbitmq": ">= 25,000"}
RATIO, TO_DEBEZIUM = ">= 0.7", ">= 2"
PACES = {100: (1, 3), 1000: (2, 1.5)}  # events a second -> the publisher's connections, and seconds
P50S = {"nats": "<= 1", "rabbitmq": "<= 1.5"}
FLOOR = 200  # messages of the bare client for it
HOT = 5_000  # events of one key
HOT_TARGETS = {"kafka": ">= 3,000"}
WARM_UP = {"nats": 5_000, "rabbitmq": 5_000, "kafka": 300_000}  # logs are opened, and Java compiles
N_IDLE, SETTLE_S, DOWN_S = 100, 3, 8
OURS, BARE = "pgcourier", "bare client"


# ---- drain --------------------------------------------------------------------------------------

def warm_up(broker):
    broker.reset()
    broker.bare(WARM_UP[broker.name])


def drain(rig, broker, who, n_events):
    rig.sql("DELETE FROM courier.cursor")
    rig.sql("CHECKPOINT")
    broker.reset()
    if who == BARE:
        result = broker.bare(n_events)
    else:
        server_before_s = process_cpu_s(broker.pid)
        result = COURIER.drain(rig, n_events, BATCH, broker)
        result["server_cpu_s"] = process_cpu_s(broker.pid) - server_before_s
        if broker.count() != n_events:
            raise RuntimeError(f"{broker.title} has {broker.count()} of {n_events} messages")
    return {**result, "n_events": n_events, "events_per_s": n_events / result["seconds"]}


def drains(rig, broker, n_events, results):
    for turn in range(1, rig.repeat + 1):
        for who in (OURS, BARE) if turn % 2 else (BARE, OURS):
            result = drain(rig, broker, who, n_events)
            results.setdefault((broker.name, who), []).append(result)
            progress(f"{turn} of {rig.repeat}, {broker.title}: {who} {result['events_per_s']:,.0f}/s")


def rates(broker, results):
    ours, bare = results[broker.name, OURS], results[broker.name, BARE]

    def per_event(turns, name):
        return [turn[name] / turn["n_events"] * 1e6 for turn in turns]

    def per_s(turns):
        return [turn["events_per_s"] for turn in turns]

    what = broker.title
    return [
        figure(f"{what}: {OURS}", "events/s", per_s(ours), TARGETS.get(broker.name)),
        figure(f"{what}: {BARE}", "events/s", per_s(bare)),
        figure(f"{what}: {OURS} to the {BARE}", "ratio",
               [statistics.median(per_s(ours)) / statistics.median(per_s(bare))], RATIO),
        figure(f"{what}: CPU of {OURS}", "us each", per_event(ours, "client_cpu_s")),
        figure(f"{what}: CPU of the {BARE}", "us each", per_event(bare, "client_cpu_s")),
        figure(f"{what}: CPU of PostgreSQL's backends", "us each", per_event(ours, "backend_cpu_s")),
        figure(f"{what}: CPU of the broker, {OURS}", "us each", per_event(ours, "server_cpu_s")),
        figure(f"{what}: CPU of the broker, {BARE}", "us each", per_event(bare, "server_cpu_s")),
        figure(f"{what}: peak resident memory, {OURS}", "MiB", [turn["peak_mib"] for turn in ours]),
        figure(f"{what}: peak resident memory, {BARE}", "MiB", [turn["peak_mib"] for turn in bare]),
    ]


# ---- latency ------------------------------------------------------------------------------------

def sink(name, broker, topics, options="", port=None):
    return f'{{ name: {name}, topics: ["{topics}"], {options} {broker.block(port)} }}'


def n_delivered(relay):
    return sum(1 for _ in log_lines(relay.log_path, "delivered"))


def publish(rig, relay, per_second, seconds, n_connections, n_before):
    """number -> times of its COMMIT, once all are delivered."""
    committed = pace.publish(rig, "app", pace.OUR_INSERT, per_second, seconds, n_connections, n_before)
    await_true(lambda: relay.is_alive() and n_delivered(relay) >= n_before + len(committed),
               "acknowledgements", interval_s=0.1)
    return committed


def latency(rig, broker):
    """pace -> from the return of COMMIT to the line `delivered` in the relay's log, in milliseconds."""
    empty(rig)
    broker.reset()
    committed, numbers = {}, {}
    with rig.relay("pace", [sink("pace", broker, PACE)], log_level="debug") as relay:
        for per_second, (n_connections, seconds) in {200: (1, 0.25), **PACES}.items():
            longer = rig.longer if per_second in PACES else 1
            of_pace = publish(rig, relay, per_second, seconds * longer, n_connections, len(committed))
            committed |= of_pace
            numbers[per_second] = list(of_pace)
    delivered_us = {event_id: us for (_, event_id), us in acknowledged_us(relay.log_path).items()}
    at_us = {number: delivered_us[event_id] for event_id, number in rig.sql(
        "SELECT event_id::text, (payload->>'n')::bigint FROM courier.outbox")}
    return {per_second: [(at_us[n] - committed[n][1]) / 1000 for n in numbers[per_second]]
            for per_second in PACES}


def floor_ms(broker, per_second):
    """From a message to its acknowledgement, by the bare client that rests before each."""
    broker.reset()
    return broker.bare(FLOOR, in_flight=1, pause_us=1_000_000 // per_second)["p50_us"] / 1000


def latencies(rig, of_all):
    results, floors = {}, {}
    for turn in range(1, rig.repeat + 1):
        for broker in of_all:
            progress(f"latency, turn {turn} of {rig.repeat}: {broker.title}")
            for per_second, took in latency(rig, broker).items():
                results.setdefault((broker.name, per_second), []).append(pace.percentiles(took))
            for per_second in PACES:
                floors.setdefault((broker.name, per_second), []).append(floor_ms(broker, per_second))
    lines = []
    for broker in of_all:
        for per_second in PACES:
            what, turns = f"{broker.title}, {per_second:,}/s", results[broker.name, per_second]
            lines += [figure(f"{what}: COMMIT to acknowledgement, {name}", "ms",
                             [turn[name] for turn in turns],
                             P50S.get(broker.name) if name == "p50" else None)
                      for name in ("p50", "p99")]
            lines.append(figure(f"{what}: the broker alone, {BARE}, p50", "ms",
                                floors[broker.name, per_second]))
    return lines


# ---- one key ------------------------------------------------------------------------------------

def hot(rig, broker, who):
    """Events a second, all of one key; of the bare client with one in flight."""
    broker.reset()
    if who == BARE:
        return HOT / broker.bare(HOT, in_flight=1)["seconds"]
    rig.sql("DELETE FROM courier.cursor")
    with rig.relay("hot", [sink("hot", broker, "**", "start: beginning,")]) as relay:
        await_true(lambda: relay.is_alive() and broker.count() >= HOT, "last event of one key",
                   interval_s=broker.look_every_s)
        return HOT / (broker.full_us() - relay.owned_us()[0]) * 1e6


def hot_keys(rig, of_all):
    empty(rig)
    rig.sql("""INSERT INTO courier.outbox (topic, key, type, payload)
        SELECT 'orders.created', 'hot', 'order',
               (rpad('{"n": ' || n || ', "note": "', 254, 'x') || '"}')::json
        FROM generate_series(1, %s) AS n""", HOT)
    rig.sql("VACUUM (ANALYZE) courier.outbox")
    results = {}
    for turn in range(1, rig.repeat + 1):
        for broker in of_all:
            for who in (OURS, BARE) if turn % 2 else (BARE, OURS):
                progress(f"one key, turn {turn} of {rig.repeat}: {broker.title}, {who}")
                results.setdefault((broker.name, who), []).append(hot(rig, broker, who))
    return [figure(f"{broker.title}, one in flight: {who}", "events/s", results[broker.name, who],
                   HOT_TARGETS.get(broker.name) if who == OURS else None)
            for broker in of_all for who in (OURS, BARE)]


# ---- idle ---------------------------------------------------------------------------------------

def resident(rig, sinks):
    """MiB of a relay that has delivered some events and has nothing to do."""
    empty(rig)
    with rig.relay("idle", sinks, log_level="debug") as relay:
        publish(rig, relay, 200, N_IDLE / 200, 1, 0)
        time.sleep(SETTLE_S)
        return memory_mib(relay.pid, "VmRSS")


def memories(rig, of_all):
    """With each broker instead of Redis for the same topic. The relay without is its own baseline."""
    redis = rig.redis_sink("stream", topics=PACE)
    rest = ['{ name: webhook, topics: ["orders.*"], http: { url: "http://127.0.0.1:9/" } }',
            '{ name: lines, topics: ["refunds.*"], stdout: {} }']
    results = {}
    for turn in range(1, rig.repeat + 1):
        progress(f"memory, turn {turn} of {rig.repeat}")
        results.setdefault(None, []).append(resident(rig, [redis, *rest]))
        for broker in of_all:
            broker.reset()
            results.setdefault(broker.name, []).append(
                resident(rig, [sink("broker", broker, PACE), *rest]))
    lines = [figure("idle, no broker: resident memory", "MiB", results[None])]
    for broker in of_all:
        more = [one - other for one, other in zip(results[broker.name], results[None])]
        lines.append(figure(f"idle, {broker.title} instead of Redis: more resident memory", "MiB", more,
                            "<= 8" if broker.name == "kafka" else None))
    return lines


def down(rig, broker):
    """% of a core while events wait for a broker that refuses connections."""
    with rig.relay("down", [sink("down", broker, "**", "start: beginning,", free_port(1))]) as relay:
        time.sleep(SETTLE_S)
        before = cpu_s(relay.pid), time.monotonic()
        time.sleep(DOWN_S)
        after = cpu_s(relay.pid), time.monotonic()
        return 100 * (after[0] - before[0]) / (after[1] - before[1])


def downs(rig, of_all):
    lines = []
    for broker in of_all:
        progress(f"{broker.title} is down")
        rig.sql("DELETE FROM courier.cursor")
        lines.append(figure(f"{broker.title} is down: CPU of the relay", "% of a core",
                            [down(rig, broker)], "< 1"))
    return lines


# ---- Debezium -----------------------------------------------------------------------------------

def beside_debezium(rig, kafka, n_events):
    debezium = Debezium(rig, KAFKA.format(kafka_port=kafka.port))
    progress(f"filling the table of {debezium.name}")
    debezium.create(n_events)
    results = {}
    for turn in range(1, rig.repeat + 1):
        for who in (OURS, debezium.name) if turn % 2 else (debezium.name, OURS):
            result = drain(rig, kafka, OURS, n_events) if who == OURS else debezium.drain(kafka, n_events)
            result["events_per_s"] = result["n_events"] / result["seconds"]
            results.setdefault(who, []).append(result)
            progress(f"{turn} of {rig.repeat}, {kafka.title}: {who} {result['events_per_s']:,.0f}/s")
    debezium.drop()
    ours, theirs = results[OURS], results[debezium.name]

    def lines(what, unit, value, target=None):
        return [figure(f"Kafka, {what}: {who}", unit, [value(turn) for turn in results[who]])
                for who in (OURS, debezium.name)]

    medians = [statistics.median(turn["events_per_s"] for turn in turns) for turns in (ours, theirs)]
    return (lines("rate", "events/s", lambda turn: turn["events_per_s"])
            + [figure(f"Kafka: {OURS} to {debezium.name} {debezium.version()}", "ratio",
                      [medians[0] / medians[1]], TO_DEBEZIUM)]
            + lines("CPU of the program", "us each",
                    lambda turn: turn["client_cpu_s"] / turn["n_events"] * 1e6)
            + lines("CPU of PostgreSQL's backends", "us each",
                    lambda turn: turn["backend_cpu_s"] / turn["n_events"] * 1e6)
            + lines("peak resident memory", "MiB", lambda turn: turn["peak_mib"]))


def run(rig):
    of_all, results = brokers(rig), {}
    for broker in of_all:
        progress(f"{broker.title}: warming up")
        warm_up(broker)
    rig.forget()
    rig.backlog()
    n_events = rig.sql("SELECT count(*) FROM courier.outbox")[0][0]
    in_order = sorted(of_all, key=lambda broker: -SHARES[broker.name])
    debezium_lines = []
    for broker in in_order:
        if SHARES[broker.name] < 1:
            continue
        drains(rig, broker, n_events, results)
        if isinstance(broker, KafkaBroker):
            debezium_lines = beside_debezium(rig, broker, n_events)
    downs_lines = downs(rig, of_all)
    for broker in in_order:
        if SHARES[broker.name] < 1:
            n_kept = int(n_events * SHARES[broker.name])
            rig.keep(n_kept)
            drains(rig, broker, n_kept, results)
    return ([line for broker in of_all for line in rates(broker, results)] + debezium_lines
            + latencies(rig, of_all) + hot_keys(rig, of_all) + memories(rig, of_all) + downs_lines)
