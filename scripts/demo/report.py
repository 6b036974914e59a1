"""Compares what was published with what arrived.

report.py wait FOLDER SECONDS   waits until every committed event has arrived everywhere
report.py table FOLDER          shows counts and latencies; fails if anything is missing, came twice
                                or was rolled back
"""

import json
import sys
import time

from arrivals import Arrivals, expected_ids, read_lines, sinks_of
from measure import acknowledged_us, percentile


def wait(folder, seconds):
    events = read_lines(f"{folder}/published")
    expected = {sink: set(expected_ids(events, topics)) for sink, topics in sinks_of(folder).items()}
    arrivals = Arrivals(folder)
    deadline = time.monotonic() + seconds
    while True:
        arrived = {sink: set(ids) for sink, ids in arrivals.ids().items()}
        missing = {sink: len(expected[sink] - arrived[sink]) for sink in expected}
        if not any(missing.values()):
            return True
        if time.monotonic() > deadline:
            what = ", ".join(f"{count} at {sink}" for sink, count in missing.items() if count)
            print(f"after {seconds} s events are still missing: {what}", file=sys.stderr)
            return False
        time.sleep(0.05)


def show_samples(samples):
    last = {sink: received[-1] for sink, received in samples.items()}
    entry, request, mail = (last[sink] for sink in ("orders-stream", "billing", "receipts"))
    print(f"""the last of each kind, as its receiver saw it:
  Redis Stream  {' '.join(f'{name}={value}' for name, value in entry.items())}
  webhook       webhook-id: {request['id']}, webhook-signature: {request['signature'][:12]}…
                {request['body']}
  e-mail        to {', '.join(mail['to'])}: {mail['subject']}""")
    for kind, sink in (("NATS", "orders-nats"), ("RabbitMQ", "orders-rabbit"),
                       ("Kafka", "orders-kafka"), ("stdout", "journal")):
        if sink in last:
            said = (f"{name}={value if isinstance(value, str) else json.dumps(value)}"
                    for name, value in last[sink].items())
            print(f"  {kind:<14}{' '.join(said)}")
    print()


def table(folder):
    events = read_lines(f"{folder}/published")
    commit_us = {event["id"]: event["commit_us"] for event in events}
    rolled_back = {event["id"] for event in events if not event["committed"]}
    acknowledged = acknowledged_us(f"{folder}/relay.log")
    samples = Arrivals(folder).samples()
    problems = []

    if all(samples.values()):
        show_samples(samples)
    print(f"{'sink':<15}{'expected':>10}{'delivered':>11}{'duplicates':>12}"
          f"{'p50 ms':>9}{'p99 ms':>9}")
    for sink, topics in sinks_of(folder).items():
        expected = set(expected_ids(events, topics))
        arrived = [one["id"] for one in samples[sink]]
        delivered = expected & set(arrived)
        duplicates = len(arrived) - len(set(arrived))
        latencies_ms = [(acknowledged[sink, id] - commit_us[id]) / 1000
                        for id in delivered if (sink, id) in acknowledged]
        p50, p99 = (f"{percentile(latencies_ms, percent):.2f}" if latencies_ms else "-"
                    for percent in (50, 99))
        print(f"{sink:<15}{len(expected):>10}{len(delivered):>11}{duplicates:>12}{p50:>9}{p99:>9}")

        found = {
            "missing": len(expected) - len(delivered),
            "delivered twice or more often": duplicates,
            "delivered although rolled back": len(rolled_back & set(arrived)),
            "delivered although for another sink": len(set(arrived) - expected - rolled_back),
            "delivered without a line in the relay's log": len(delivered) - len(latencies_ms),
        }
        problems += [f"{sink}: {count} {what}" for what, count in found.items() if count > 0]

    print(f"\np50 and p99: from just before COMMIT to the receiver's acknowledgement."
          f"\n{len(rolled_back)} events were rolled back with their transactions.")
    for problem in problems:
        print(problem, file=sys.stderr)
    return not problems


def main():
    if sys.argv[1] == "wait":
        return wait(sys.argv[2], int(sys.argv[3]))
    return table(sys.argv[2])


sys.exit(0 if main() else 1)
