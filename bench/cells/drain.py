"""A backlog into Redis Streams as fast as it goes, beside redis-benchmark.

The reference is redis-benchmark sending the same bytes, pipelined, without any database: once as
clients commonly pipeline, once as deep as the relay does itself.
"""

import statistics
import subprocess
import time

from rig import KEYS, PAYLOAD_BYTES, TOPICS, await_true, cpu_s, figure, memory_mib, progress

CONFIGURATIONS = {
    "max_in_flight 1000": "max_in_flight: 1000",
    "max_in_flight 4000": "max_in_flight: 4000",
    "1000, order: none": "max_in_flight: 1000, order: none",
}
PIPELINES = [50, 1000]


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
    return {"events_per_s": rate, "redis_cpu_s": cpu_s(redis_pid) - redis_before_s}


def drain(rig, settings):
    """One relay from its start until Redis has everything; what that took."""
    rig.forget()
    redis_pid = rig.redis.info("server")["process_id"]
    redis_before_s = cpu_s(redis_pid)
    sink = rig.redis_sink("drain", f"start: beginning, {settings},")
    with rig.relay("drain", [sink]) as relay:
        backends = rig.backends("drain")
        await_true(lambda: relay.is_alive() and rig.stream_lengths() >= rig.events, "full streams")
        seconds = time.time() - relay.owned_us()[0] / 1e6
        result = {
            "events_per_s": rig.events / seconds,
            "relay_cpu_s": cpu_s(relay.pid),
            "backend_cpu_s": sum(cpu_s(pid) for pid in backends),
            "redis_cpu_s": cpu_s(redis_pid) - redis_before_s,
            "peak_mib": memory_mib(relay.pid, "VmHWM"),
        }
    if rig.stream_lengths() != rig.events:
        raise RuntimeError(f"{rig.stream_lengths()} entries for {rig.events} events")
    return result


def run(rig):
    rig.backlog()
    references = {pipeline: [] for pipeline in PIPELINES}
    drains = {name: [] for name in CONFIGURATIONS}
    for turn in range(1, rig.repeat + 1):
        said = []
        for pipeline, results in references.items():
            results.append(reference(rig, pipeline))
            said.append(f"-P {pipeline} {results[-1]['events_per_s']:,.0f}/s")
        for name, results in drains.items():
            results.append(drain(rig, CONFIGURATIONS[name]))
            said.append(f"{name} {results[-1]['events_per_s']:,.0f}/s")
        progress(f"  {turn} of {rig.repeat}: {', '.join(said)}")

    def values(results, name):
        return [result[name] for result in results]

    figures = []
    for pipeline, results in references.items():
        what = f"redis-benchmark XADD, -P {pipeline}"
        figures += [figure(what, "events/s", values(results, "events_per_s")),
                    figure(f"{what}: CPU of Redis", "s", values(results, "redis_cpu_s"))]
    reached = statistics.median(values(references[PIPELINES[0]], "events_per_s"))
    for what, results in drains.items():
        rates = values(results, "events_per_s")
        figures += [
            figure(what, "events/s", rates),
            # Of the medians: a neighbour on the machine disturbs one run, not the pair of them.
            figure(f"{what}: of redis-benchmark -P {PIPELINES[0]}", "%",
                   [100 * statistics.median(rates) / reached]),
            figure(f"{what}: CPU of the relay", "s", values(results, "relay_cpu_s")),
            figure(f"{what}: CPU of its PostgreSQL backends", "s", values(results, "backend_cpu_s")),
            figure(f"{what}: CPU of Redis", "s", values(results, "redis_cpu_s")),
        ]
    return figures
