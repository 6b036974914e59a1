"""What it costs to keep all attempts: a backlog to a webhook receiver that answers at once, with `attempts:
none` and `all` in turns; by the url in the configuration, and to ten receivers.

The database's share is the CPU time of the relay's backends, for each attempt, above that without.
"""

from load import empty
from rig import figure, progress
from cells.webhooks import ROWS, URL, Case, load, measure

CASES = {URL: Case(0, 256, 200_000, (URL,)), ROWS: Case(0, 256, 20_000, (ROWS,))}
NONE, ALL = "none", "all"


def run(rig):
    lines = []
    empty(rig)
    for kind, case in CASES.items():
        load(rig, case.n_events)
        turns = {NONE: [], ALL: []}
        for turn in range(1, rig.repeat + 1):
            for kept in (NONE, ALL) if turn % 2 else (ALL, NONE):
                progress(f"turn {turn} of {rig.repeat}: {kind}, attempts: {kept}")
                turns[kept].append(measure(rig, kind, case, f", attempts: {kept}"))
                if kept == ALL and not rig.sql("SELECT count(*) > 0.99 * %s FROM courier.attempt",
                                               200_000)[0][0]:
                    raise RuntimeError("attempts are missing")
        lines += [figure(f"{kind}, attempts: {kept}", "per s", [one["per_s"] for one in turns[kept]])
                  for kept in (NONE, ALL)]
        pairs = list(zip(turns[ALL], turns[NONE]))
        lines.append(figure(f"{kind}: all to none", "ratio", [a["per_s"] / b["per_s"] for a, b in pairs], ">= 0.9"))
        lines += [figure(f"{kind}: {what} of an attempt that is kept", "us each",
                         [a[of] - b[of] for a, b in pairs], target)
                  for what, of, target in (("CPU of PostgreSQL", "backends_us", "<= 3"),
                                           ("CPU of the relay", "cpu_us", None))]
    empty(rig)
    return lines
