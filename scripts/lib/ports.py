"""Free ports of 127.0.0.1, below those that clients are given: no outgoing connection takes one before its server does.
Those of tests/support/process.c are others.

ports.py N prints so many.
"""

import random
import socket
import sys


def free_ports(n_ports):
    kept = []
    while len(kept) < n_ports:
        try:
            kept.append(socket.create_server(("127.0.0.1", random.randrange(10_000, 20_000))))
        except OSError:
            continue
    ports = [one.getsockname()[1] for one in kept]
    for one in kept:
        one.close()
    return ports


if __name__ == "__main__":
    print(*free_ports(int(sys.argv[1])))
