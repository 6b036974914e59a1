"""What the demo's parts share: which sink wants which events, and what has arrived where."""

import json
import os
from fnmatch import fnmatchcase

import redis

# As in the configuration that scripts/quickstart writes.
SINKS = {
    "orders-stream": ["orders.*"],
    "billing": ["orders.*", "refunds.*"],
    "receipts": ["mail.*"],
}
BROKER_SINKS = {
    "orders-nats": ["orders.*"],
    "orders-rabbit": ["orders.*"],
    "orders-kafka": ["orders.*"],
    "journal": ["**"],
}


def sinks_of(folder):
    """sink -> its topics. The brokers' are there with scripts/quickstart --brokers."""
    return SINKS | (BROKER_SINKS if os.path.exists(f"{folder}/nats.port") else {})


def announce_port(path, port):
    """Under its final name only once it is complete: others wait for the file."""
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(str(port))
    os.rename(path + ".new", path)


def read_lines(path):
    """The JSON lines of a file, which may not exist yet and may be growing."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def expected_ids(events, topics):
    return [event["id"] for event in events if event["committed"]
            and any(fnmatchcase(event["topic"], pattern) for pattern in topics)]


class Arrivals:
    def __init__(self, folder):
        self.folder = folder
        self.redis = redis.Redis(unix_socket_path=f"{folder}/redis.sock", decode_responses=True)

    def stream_entries(self):
        return [entry for stream in sorted(self.redis.keys("events:*"))
                for _, entry in self.redis.xrange(stream)]

    def samples(self):
        """For each sink everything that arrived, as its receiver saw it."""
        files = {"billing": "http", "receipts": "smtp", "orders-nats": "nats",
                 "orders-rabbit": "rabbitmq", "orders-kafka": "kafka", "journal": "journal"}
        return {sink: read_lines(f"{self.folder}/{files[sink]}.received") if sink in files
                else self.stream_entries() for sink in sinks_of(self.folder)}

    def ids(self):
        return {sink: [one["id"] for one in all] for sink, all in self.samples().items()}
