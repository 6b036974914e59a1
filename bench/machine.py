"""What the figures were measured on, and what else happened to the machine meanwhile."""

import os
import platform
import statistics
import subprocess
import time

# What decides how fast PostgreSQL commits; the run says with which values.
SETTINGS = ["fsync", "synchronous_commit", "shared_buffers", "max_wal_size", "autovacuum"]
FLUSHES = 100
# What scripts/bench takes from the environment, if it is there.
VARIABLES = ["REPEAT", "EVENTS", "LONGER", "HELD_S", "GROWTH_MAX", "PEERS"]


def first_words(command):
    try:
        return subprocess.run(command, text=True, capture_output=True, check=False).stdout.strip()
    except OSError:
        return ""


def flush_ms(folder):
    """How long this disk takes to make one page of a WAL durable: the median."""
    took_ms = []
    path = f"{folder}/flush"
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.write(file, bytes(8192 * FLUSHES))
    os.fsync(file)
    for page in range(FLUSHES):
        began = time.monotonic()
        os.pwrite(file, b"x" * 8192, page * 8192)
        os.fdatasync(file)
        took_ms.append((time.monotonic() - began) * 1000)
    os.close(file)
    os.remove(path)
    return statistics.median(took_ms)


def load():
    return "load average " + " ".join(f"{one:.2f}" for one in os.getloadavg())


class Cores:
    """Since when: how busy the cores were, and how much of them others on the host took."""

    def __init__(self):
        self.began = self.ticks()

    @staticmethod
    def ticks():
        with open("/proc/stat", encoding="ascii") as file:
            return [int(one) for one in file.readline().split()[1:9]]

    def used(self):
        spent = [now - before for before, now in zip(self.began, self.ticks())]
        total = max(1, sum(spent))
        idle, stolen = spent[3] + spent[4], spent[7]
        return (f"{100 * (total - idle - stolen) / total:.0f} % busy,"
                f" {100 * stolen / total:.1f} % stolen by the host")


def facts(rig):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    with open("/proc/meminfo", encoding="ascii") as file:
        gib = int(file.readline().split()[1]) / 1024 / 1024
    virtual = first_words(["systemd-detect-virt"])
    program = first_words([f"{rig.folder}/pgcourier", "version"]).splitlines()[0]
    commit = os.environ.get("COMMIT")
    return {
        "program": program + (f", commit {commit}" if commit else ""),
        "PostgreSQL": rig.sql("SHOW server_version")[0][0] + ", " + ", ".join(
            f"{name} {rig.sql(f'SHOW {name}')[0][0]}" for name in SETTINGS),
        "Redis": rig.redis.info("server")["redis_version"],
        "kernel": f"{platform.system()} {platform.release().partition('-')[0]}",
        "cores": f"{os.cpu_count()} × {models[0] if models else platform.machine()}"
                 + (f", virtual ({virtual})" if virtual not in ("", "none") else ""),
        "memory": f"{gib:.0f} GiB",
        "disk": f"{flush_ms(rig.folder):.2f} ms to flush a page (fdatasync, median of {FLUSHES})",
        "date": time.strftime("%-d %B %Y"),
        "environment": " ".join(f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ),
        "repeat": str(rig.repeat),
        "load before": load(),
    }
