"""What delivering costs the database: each strategy of the cell drain, for a million events.

To the sink that goes nowhere, so that nothing but the database and its client share the cores. CPU
is the kernel's account of the backends that serve the strategy; the WAL, the commits and the row
versions that died (updated or deleted, over all tables) are those of the whole database meanwhile.
"""

import statistics

from cells.drain import BATCHES, SHARE, prepare
from progress import progress
from rig import figure
from strategies import COURIER, LEASE, LONG_TRANSACTION, NULL, PGQ, STRATEGIES, measure

COSTS = [  # in the result, in the table, its unit, and how many of the first are one of these
    ("backend_cpu_s", "CPU of its backends", "s", 1),
    ("background_cpu_s", "CPU of WAL writer, checkpointer, …", "s", 1),
    ("client_cpu_s", "CPU of the client", "s", 1),
    ("wal_bytes", "WAL", "MiB", 1 << 20),
    ("dead_tuples", "dead tuples", "thousand", 1000),
    ("commits", "commits", "thousand", 1000),
]


def per_million(result, name, unit_size):
    return result[name] / unit_size / result["n_events"] * 1e6


def run(rig):
    results = {(batch, strategy): [] for batch in BATCHES for strategy in STRATEGIES}
    rig.forget()
    rig.backlog()
    n_events = prepare(rig, SHARE)
    for turn in range(1, rig.repeat + 1):
        rig.sql("CHECKPOINT")
        for batch, strategy in results if turn % 2 else reversed(results):
            result = measure(rig, strategy, n_events[strategy], batch, NULL)
            results[batch, strategy].append(result)
            progress(f"{turn} of {rig.repeat}, batch {batch}: {strategy.name} "
                     f"{per_million(result, 'backend_cpu_s', 1):.2f} s per million")
    rig.forget()

    def values(batch, strategy, name, unit_size=1):
        return [per_million(one, name, unit_size) for one in results[batch, strategy]]

    def cpu(batch, strategy):
        return statistics.median(values(batch, strategy, "backend_cpu_s"))

    figures = [figure(f"{what}, batch {batch}: {strategy.name}", unit,
                      values(batch, strategy, name, unit_size),
                      in_table=name not in ("background_cpu_s", "client_cpu_s"))
               for batch in BATCHES for name, what, unit, unit_size in COSTS
               for strategy in STRATEGIES]
    for batch in BATCHES:
        figures.append(figure(f"dead tuples in the outbox, batch {batch}: pgcourier", "thousand",
                              values(batch, COURIER, "outbox_dead_tuples", 1000), "<= 0"))
        for against, target in ((LONG_TRANSACTION, "<= 0.4"), (LEASE, "<= 0.2"), (PGQ, None)):
            figures.append(figure(
                f"CPU of its backends, batch {batch}: pgcourier to {against.name}", "ratio",
                [cpu(batch, COURIER) / cpu(batch, against)], target if batch == 1000 else None))
    return figures
