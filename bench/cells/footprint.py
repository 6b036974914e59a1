"""What a relay costs: memory idle and at work, the time to start, queries while nothing happens."""

import time

from progress import progress
from rig import figure, memory_mib, transactions
from strategies import COURIER, REDIS, measure

SETTLE_S = 5
IDLE_S = 10


def run(rig):
    sinks = [
        rig.redis_sink("stream"),
        '{ name: webhook, topics: ["orders.*"], http: { url: "http://127.0.0.1:9/" } }',
        '{ name: lines, topics: ["refunds.*"], stdout: {} }',
    ]
    watcher = rig.watcher()
    rig.forget()
    start_ms, idle_mib, anonymous_mib, per_s = [], [], [], []
    with rig.relay("footprint", sinks):
        pass  # makes the cursors
    for turn in range(1, rig.repeat + 1):
        progress(f"  {turn} of {rig.repeat}: {SETTLE_S + IDLE_S} s with nothing to do")
        with rig.relay("footprint", sinks) as relay:
            start_ms.append((relay.owned_us()[0] - relay.started_us) / 1000)
            time.sleep(SETTLE_S)
            idle_mib.append(memory_mib(relay.pid, "VmRSS"))
            anonymous_mib.append(memory_mib(relay.pid, "RssAnon"))
            before, began = transactions(watcher), time.monotonic()
            time.sleep(IDLE_S)
            per_s.append((transactions(watcher) - before) / (time.monotonic() - began))
    watcher.connection.close()

    rig.backlog()
    progress(f"  draining {rig.events:,} events")
    return [
        figure("resident memory, idle, 3 sinks", "MiB", idle_mib),
        figure("of which its own (anonymous)", "MiB", anonymous_mib),
        figure("peak resident memory while draining", "MiB",
               [measure(rig, COURIER, rig.events, 1000, REDIS)["peak_mib"]]),
        figure("start to the first lane_owned", "ms", start_ms),
        figure("transactions in PostgreSQL while idle, 3 sinks", "per s", per_s),
    ]
