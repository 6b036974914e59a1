"""A backlog into Redis Streams as fast as it goes, beside what Redis takes at most.

The ceiling is redis-benchmark sending the same bytes, pipelined, without any database.
"""

import subprocess
import time

from rig import KEYS, PAYLOAD_BYTES, TOPICS, await_true, cpu_s, figure, memory_mib, progress

MAX_IN_FLIGHT = [1000, 4000]


def ceiling(rig):
    """XADD with the fields of an event of the backlog: commands per second."""
    payload = '{"order": 123456, "note": "'.ljust(PAYLOAD_BYTES - 2, "x") + '"}'
    fields = {"id": "00000000-0000-4000-8000-000000000000", "topic": TOPICS[0],
              "key": f"customer-{KEYS // 2}", "type": "order",
              "time": "2024-01-31T23:59:59.123456Z", "payload": payload}
    words = [word for field in fields.items() for word in field]
    rig.redis.flushall()
    header, line = subprocess.run(
        ["redis-benchmark", "-s", f"{rig.folder}/redis.sock", "-P", "50", "-c", "1", "-n",
         str(rig.events), "--csv", "XADD", f"events:{TOPICS[0]}", "*", *words],
        check=True, text=True, capture_output=True).stdout.splitlines()
    # The first column is the whole command, with whatever quotes and commas it holds.
    return float(line.rsplit('","', header.count(","))[header.split(",").index('"rps"')])


def drain(rig, max_in_flight):
    """One relay from its start until Redis has everything; what that took."""
    rig.forget()
    redis_pid = rig.redis.info("server")["process_id"]
    redis_before_s = cpu_s(redis_pid)
    sink = rig.redis_sink("drain", f"start: beginning, max_in_flight: {max_in_flight},")
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
    ceilings = []
    drains = {limit: [] for limit in MAX_IN_FLIGHT}
    for turn in range(1, rig.repeat + 1):
        ceilings.append(ceiling(rig))
        said = f"ceiling {ceilings[-1]:,.0f}/s"
        for limit in MAX_IN_FLIGHT:
            drains[limit].append(drain(rig, limit))
            said += f", max_in_flight {limit} {drains[limit][-1]['events_per_s']:,.0f}/s"
        progress(f"  {turn} of {rig.repeat}: {said}")

    figures = [figure("ceiling: redis-benchmark, XADD, pipeline 50", "events/s", ceilings)]
    for limit, results in drains.items():
        def values(name):
            return [result[name] for result in results]
        what = f"max_in_flight {limit}"
        figures += [
            figure(what, "events/s", values("events_per_s")),
            figure(f"{what}: part of the ceiling", "%",
                   [100 * rate / top for rate, top in zip(values("events_per_s"), ceilings)]),
            figure(f"{what}: CPU of the relay", "s", values("relay_cpu_s")),
            figure(f"{what}: CPU of its PostgreSQL backends", "s", values("backend_cpu_s")),
            figure(f"{what}: CPU of Redis", "s", values("redis_cpu_s")),
        ]
    return figures
