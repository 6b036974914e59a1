"""Events at a pace, and how long each takes from its COMMIT to the acknowledgement of Redis.

bench/publisher.c notes the commits, bench/ack_times.c the acknowledgements of any destination.
"""

import json
import mmap
import os
import struct
import subprocess

from measure import percentile
from rig import await_true

COMMIT = struct.Struct("=qq")
ACK = struct.Struct("=qQQ")
ACK_HEAD = struct.Struct("=QQQ")
PERCENTILES = {"p50": 50, "p99": 99, "p99.9": 99.9, "max": 100}

# What the publisher runs: $1 is the event's number, $2 its payload.
OUR_INSERT = ("INSERT INTO courier.outbox (topic, key, type, payload)"
              " VALUES ('pace', 'customer-' || $1::bigint % 1000, 'order', $2)")


class Acks:
    """What the preloaded library of one program has noted."""

    def __init__(self, rig, name):
        self.path = f"{rig.folder}/{name}.acks"
        if os.path.exists(self.path):
            os.remove(self.path)
        self.environment = {"LD_PRELOAD": f"{rig.folder}/ack_times.so", "ACK_TIMES": self.path}
        self.memory = None

    def count(self):
        if self.memory is None:
            if not os.path.exists(self.path) or os.path.getsize(self.path) < ACK_HEAD.size:
                return 0
            with open(self.path, "rb") as file:
                self.memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return ACK_HEAD.unpack_from(self.memory)[0]

    def times_us(self):
        """entry id -> when its acknowledgement was read; of a stream that is filled alone."""
        n_bytes = self.count() * ACK.size
        if n_bytes == 0:
            return {}
        return {f"{ms}-{sequence}": at_us for at_us, ms, sequence in ACK.iter_unpack(
            self.memory[ACK_HEAD.size:ACK_HEAD.size + n_bytes])}

    def close(self):
        if self.memory is not None:
            self.memory.close()
            os.remove(self.path)


def publisher(rig, user, insert, per_second, seconds, n_connections, first=0):
    """Starts it; its numbers go from `first` on."""
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", f"{rig.folder}/publisher", rig.dsn(user),
         f"{rig.folder}/commits", str(per_second), str(seconds), str(n_connections), str(first),
         insert])


def commits(rig, first=0):
    """number -> (wall time before COMMIT, after it), in microseconds."""
    with open(f"{rig.folder}/commits", "rb") as file:
        return {number: times for number, times in enumerate(COMMIT.iter_unpack(file.read()), first)
                if times[0] > 0}


def entries(rig, stream):
    """The stream's (entry id, the event's number), read in pieces."""
    last = "-"
    while True:
        piece = rig.redis.xrange(stream, min=last, count=10_000)
        for entry_id, fields in piece:
            yield entry_id, json.loads(fields["payload"])["n"]
        if not piece:
            return
        last = "(" + piece[-1][0]


def publish(rig, user, insert, per_second, seconds, n_connections, first=0):
    """Publishes and waits for its end: number -> times of its COMMIT."""
    process = publisher(rig, user, insert, per_second, seconds, n_connections, first)
    if process.wait() != 0:
        raise RuntimeError(f"the publisher exited with {process.returncode}")
    return commits(rig, first)


def await_acks(program, acks, n_events, may_lose=False):
    """Until all acknowledgements are there; a program that may lose some is given a second."""
    try:
        await_true(lambda: program.is_alive() and acks.count() >= n_events, "acknowledgements",
                   **({"deadline_s": 1} if may_lose else {}))
    except TimeoutError:
        if not may_lose:
            raise


def percentiles(values):
    return {name: percentile(values, percent) for name, percent in PERCENTILES.items()}
