"""The tables of docs/benchmarks.md that the benchmark can fill (scripts/figures).

A table stands there between "<!-- figures: NAME -->" and "<!-- end -->". It is written when all its
figures have been measured, with a line that says of which program they are, where and when.
"""

import json
import pathlib
import re
import textwrap

from model import KINDS, PUBLISHED, SHARDS, Load, Model, Sink
from table import HOLDS

UNITS = {"per s": "/s", "events/s": "/s", "us each": " µs", "us": " µs", "ratio": ""}
BEGIN, END = re.compile(r"<!-- figures: ([\w ]+) -->"), "<!-- end -->"


def digits(value):
    """To three digits, or four of what is large."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        step = 1000 if abs(value) >= 1e6 else 100 if abs(value) >= 1e5 else 1
        return f"{round(value / step) * step:,}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.995 else f"{value:.3f}"


def one_line_each(cells):
    """JSON in which a figure is a line, so that a difference can be read."""
    def mapping(of, show, indent):
        return "{\n" + ",\n".join(f"{indent}{json.dumps(key, ensure_ascii=False)}: {show(value)}"
                                 for key, value in of.items()) + "}"

    def line(value):
        return json.dumps(value, ensure_ascii=False)

    return mapping(dict(sorted(cells.items())), lambda cell: mapping(
        cell, lambda part: mapping(part, line, "  "), " "), "") + "\n"


class Figures:
    """What was measured last of each cell; bench/figures.json."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.cells = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
        self.used = []

    def take(self, results):
        """Of a run of scripts/bench: each of its cells as a whole."""
        measured = {}
        for figure in results["figures"]:
            cell = measured.setdefault(figure["cell"], {"facts": results["facts"], "figures": {}})
            if "values" in figure:
                of_all = {"median": figure["median"], "min": min(figure["values"]), "max": max(figure["values"])}
                cell["figures"][figure["figure"]] = {
                    **{name: float(f"{value:.6g}") for name, value in of_all.items()},
                    "unit": figure["unit"], **({"target": figure["target"]} if figure.get("target") else {})}
        self.cells.update(measured)
        self.path.write_text(one_line_each(self.cells), encoding="utf-8")

    def one(self, cell, name):
        if cell not in self.used:
            self.used.append(cell)
        return self.cells[cell]["figures"][name]

    def names(self, cell):
        if cell not in self.used:
            self.used.append(cell)
        return list(self.cells[cell]["figures"])

    def value(self, cell, name, unit=None, scale=1):
        figure = self.one(cell, name)
        if figure["median"] == 0 and unit is None:
            return "0"
        return digits(figure["median"] * scale) + (UNITS.get(figure["unit"], f" {figure['unit']}")
                                                   if unit is None else unit)

    def bare(self, cell, name, scale=1):
        return self.value(cell, name, "", scale)

    def spread(self, cell, name):
        figure = self.one(cell, name)
        if figure["min"] == figure["max"]:
            return self.value(cell, name)
        return f"{self.value(cell, name)} ({digits(figure['min'])} to {digits(figure['max'])})"

    def verdict(self, *figures):
        reached = []
        for cell, name in figures:
            figure = self.one(cell, name)
            sign, bound = figure["target"].split()
            reached.append(HOLDS[sign](figure["median"], float(bound.replace(",", ""))))
        return "reached" if all(reached) else "**missed**"

    def origin(self):
        """Of the cells that were used: program, machine and day."""
        told = {}
        for cell in self.used:
            facts = self.cells[cell]["facts"]
            cores = re.sub(r"\(\w+\)| Processor", "", facts["cores"]).strip()
            told.setdefault(f"{facts['program']}; {cores}; {facts['date']}", []).append(
                f"`{facts['environment']} scripts/bench {cell}`".replace("` ", "`"))
        return "\n".join(line for what, commands in told.items()
                         for line in textwrap.wrap(f"{', '.join(commands)}: {what}.", 100))


def rows_of(head, rows):
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]


STRATEGIES = [("pgcourier", "pgcourier"), ("long transaction", "long_transaction"), ("lease", "lease"),
              ("advisory lock", "advisory_lock"), ("xid cursor", "xid_cursor"),
              ("serialised writers", "serialised_writers"), ("PgQ", "pgq")]


def drain(f):
    columns = [(f"{sink}, {batch}", f"{sink.lower()}, batch {batch}: ")
               for sink in ("null", "Redis", "HTTP") for batch in (1000, 100)]
    rows = [[name, *(f.bare("drain", what + key) for _, what in columns)] for name, key in STRATEGIES]
    rows.append(["pgcourier with default settings", *(
        cell for sink in ("null", "redis", "http")
        for cell in (f.bare("drain", f"{sink}, default settings: pgcourier"), ""))])
    rows.append(["`redis-benchmark`, pipeline 50 / 1000", "", "", " / ".join(
        f.bare("drain", f"redis: redis-benchmark XADD -P {n}") for n in (50, 1000)), "", "", ""])
    return rows_of(["events/s", *(name for name, _ in columns)], rows)


def cost(f):
    def both(what, key, unit="", scale=1):
        return " / ".join(f.bare("cost", f"{what}, batch {batch}: {key}", scale)
                          for batch in (1000, 100)) + unit

    return rows_of(
        ["for a million events, batch 1000 / 100", "CPU of the backends", "WAL", "dead rows", "commits"],
        [[name, both("CPU of its backends", key, " s"), both("WAL", key, " MiB"),
          both("dead tuples", key, " (cursor)" if key == "pgcourier" else "", 1000),
          both("commits", key, "", 1000)]
         for name, key in STRATEGIES])


def latency(f):
    rows = []
    for state in ("idle", "draining"):
        for pace in ("1", "100", "1,000", "5,000"):
            what, names = f"{pace}/s, {state}: ", ["p50"] + ["p99"] * (pace != "1")
            ours = [f.value("latency", what + name) for name in names + ["p99.9"] * (pace != "1")]
            floor = [f.value("latency", f"{what}floor, {name}") for name in names]
            rows.append([f"{pace}/s, {state}", *(ours + [""] * 3)[:3], *(floor + [""] * 2)[:2]])
    return rows_of(["COMMIT's return to acknowledgement", "p50", "p99", "p99.9", "floor: p50", "p99"], rows)


def latency_cpu(f):
    return rows_of(["idle, CPU for each event", "relay", "its backends"], [
        [f"{pace}/s", *(f.spread("latency", f"{pace}/s, idle: CPU of {whose}")
                        for whose in ("the relay", "its backends"))] for pace in ("100", "1,000", "5,000")])


def writers(f):
    ways = [("our doorbell, relay busy", "our doorbell, relay busy"),
            ("our doorbell, relay with nothing to deliver", "our doorbell, nothing to deliver"),
            ("our doorbell, no relay", "our doorbell, no relay"),
            ("NOTIFY per transaction", "NOTIFY per transaction"),
            ("writes behind an advisory lock", "writes behind an advisory lock")]
    return rows_of(["transactions/s, of those without a doorbell", "16 clients", "64 clients"], [
        ["no doorbell", *(f.value("writers", f"{n} clients: no doorbell") for n in (16, 64))],
        *([name, *(f.spread("writers", f"{n} clients: {way}, of no doorbell") for n in (16, 64))]
          for name, way in ways)])


PROGRAMS = ["pgcourier", "Debezium Server", "PgQ", "graphile-worker", "River", "pg-boss", "Open Outbox Relay"]


def peer(f, program):
    """What its figures begin with: the name and the version."""
    return next(name.split(": ")[0] for name in f.names("peers") if name.startswith(program + " "))


def found(f, *names, unit=None):
    """Of the names those that the program has; what it does not do is a dash."""
    there = [f.value("peers", name, unit) for name in names if name in f.names("peers")]
    return there[0] if there else "–"


def peers(f):
    rows = []
    for program in PROGRAMS:
        of = peer(f, program)
        rows.append([of.replace(".Final", "")] + [found(f, f"{of}: {what}") for what in (
            "to Redis", "webhooks, answered at once", "webhooks, answered after 100 ms")] + [
            " / ".join(found(f, *(f"{of}: {pace}/s, COMMIT to {where}, {name}"
                                  for where in ("the receiver", "Redis")), unit="")
                       for name in ("p50", "p99")) + " ms" for pace in ("100", "1,000")])
    return rows_of(["program and version", "to Redis", "webhooks, answered at once", "webhooks, after 100 ms",
                    "100/s: p50 / p99", "1,000/s: p50 / p99"], rows)


def peers_cost(f):
    rows = []
    for program in PROGRAMS:
        of = peer(f, program)
        rows.append([program] + [found(f, f"{of}: {what}") for what in (
            "to Redis, CPU of the program", "to Redis, CPU of PostgreSQL's backends",
            "webhooks, answered at once, CPU of the program",
            "webhooks, answered at once, CPU of PostgreSQL's backends")] + [
            found(f, f"{of}: to Redis, dead rows", unit=""),
            found(f, f"{of}: to Redis, peak resident memory"),
            found(f, f"{of}: 16 writers with it, of without") + " of "
            + found(f, f"{of}: 16 writers without it")])
    return rows_of(["the same run", "CPU of the program, to Redis", "of PostgreSQL's backends",
                    "CPU for a webhook", "of PostgreSQL's backends", "dead rows an event", "peak memory",
                    "16 writers with it, of without"], rows)


def webhooks(f):
    def row(name, what, ways):
        cells = [f.spread("webhooks", f"{way}, {what}") if way else "" for way in ways]
        of = next(way for way in ways if way)
        whose = ": its CPU" if of.startswith("bare") else ": CPU of the relay"
        return [name, *cells, f.value("webhooks", f"{of}, {what}{whose}")]

    at_once = "answers at once, 256 in flight"
    return rows_of(["webhooks", "by `url`", "as a receiver", "CPU of the relay, by `url`"], [
        *(row(f"{delay} ms, {n} in flight ({most}/s are possible)", f"answers after {delay} ms, {n} in flight",
              ("url", "receiver"))
          for delay, n, most in ((100, "256", "2,560"), (100, "1,000", "10,000"), (20, "256", "12,800"))),
        row("at once, 256 in flight", at_once, ("url", "receiver")),
        row("the same, a bare loop", at_once, ("bare loop", None)),
        row("at once by TLS, 256 in flight", at_once, ("url by TLS", None)),
        row("the same, a bare loop by TLS", at_once, ("bare loop by TLS", None)),
        row("1 s, 10,000 in flight at ten receivers (10,000/s are possible)",
            "answers after 1000 ms, 10,000 in flight", (None, "ten receivers"))])


def footprint(f):
    def idle(n):
        what = f"idle, {n} sinks: "
        return [f"{f.value('footprint', what + 'resident memory')}, of which "
                f"{f.bare('footprint', what + 'of which its own (anonymous)')} are its own",
                f"{f.bare('footprint', what + 'wake-ups of the relay')}/s and "
                f"{f.bare('footprint', what + 'statements sent to PostgreSQL')}/s",
                f.value("footprint", what + "start to all lanes owned")]

    def peaks(what):
        return ", ".join(f.value("footprint", f"peak resident memory, {what}, {state}")
                         for state in ("drained", "the sink is down"))

    names = ["resident memory, idle", "wake-ups and statements while idle", "start to all lanes owned"]
    return rows_of(["footprint", "3 sinks", "16 sinks"], [
        *map(list, zip(names, idle(3), idle(16))),
        ["peak, a million events waiting: drained, and the sink down", peaks("1,000,000 events waiting"), ""],
        ["peak, events of 64 KiB: drained, and the sink down", peaks("events of 64 KiB waiting"), ""]])


def troubled(f):
    states = ("nothing there", "all of it there")

    def row(name, what, way=None):
        return [name, *((way or f.value)("troubled", f"{what}, {state}") for state in states)]

    return rows_of(
        ["a million parked keys, 100,000 dead letters, 1,000 schedules", "without", "with"],
        [row("`pgcourier status`", "pgcourier status", f.spread),
         ["100 events/s: p50, p99", *(", ".join(
             f.value("troubled", f"100/s, COMMIT to acknowledgement, {name}, {state}")
             for name in ("p50", "p99")) for state in states)],
         row("start to `lane_owned`", "start to lane_owned", f.spread),
         row("peak resident memory", "peak memory of the relay"),
         ["`lane_owned` until 1,000 parked events that are due are delivered", "", f.spread(
             "troubled", "lane_owned until 1,000 parked rows that are due are delivered, all of it there")],
         ["a `courier.schedule()`, the median of 1,000", "",
          f.value("troubled", "a courier.schedule(), of 1,000")]])


def relays(f):
    rolling, kinds = "8 relays restarted in turns, 2,000 events/s", ("1", "2", "4", "8")
    return rows_of(["several relays, 64 shards", "measured"], [
        ["1, 2, 4, 8 relays, each with 16 requests of 100 ms in flight", ", ".join(
            f.bare("relays", f"{n} relays, 16 requests of 100 ms each") for n in kinds) + " events/s"],
        ["2, 4, 8 relays, to as many times one", ", ".join(
            f.bare("relays", f"{n} relays, to {n} times one") for n in kinds[1:])],
        *([f"{n} idle relays: statements; CPU of PostgreSQL; of all relays", "; ".join(
            f.value("relays", f"{n} idle relays, 64 shards: {what}")
            for what in ("statements", "CPU of PostgreSQL", "CPU of all relays"))] for n in (1, 8)),
        ["kill -9 of one of 4: all shards have an owner after",
         f.spread("relays", "kill -9 of one of 4 relays: all shards have an owner again after")],
        ["8 relays restarted in turns under 2,000 events/s, COMMIT to arrival: p50, p99, max", ", ".join(
            f.value("relays", f"{rolling}: {what}") for what in ("p50 from COMMIT to arrival", "p99", "max"))],
        ["events that came twice, out of order, not at all", ", ".join(
            f.bare("relays", f"{rolling}: {what}") for what in ("came twice", "out of order", "lost"))]])


def fanout(f):
    pace, tenants = "900/s, {}: ", "10,000 receivers, an event a minute for each: "
    lines = [("a burst of 40 events to 900 receivers", "900 receivers, a burst"),
             ("CPU of the relay for each", "a burst: CPU of the relay")]
    for dead in ("none dead", "100 dead"):
        lines += [(f"900/s, {dead}: {name}", pace.format(dead) + what) for name, what in (
            ("p50", "publish to arrival, p50"), ("p99", "publish to arrival, p99"),
            ("peak resident memory", "peak resident memory"), ("CPU of the relay", "CPU of the relay"),
            ("transactions in PostgreSQL", "transactions in PostgreSQL"))]
    lines += [("p99, 100 dead to none dead", "p99, 100 dead to none dead")]
    lines += [(f"10,000 receivers, an event a minute for each: {what}", tenants + what) for what in (
        "CPU of the relay", "CPU of its PostgreSQL backends", "resident memory", "publish to arrival, p50")]
    return rows_of(["fan-out", "median", "min", "max"], [
        [name, f.value("fanout", what), *(digits(f.one("fanout", what)[which]) for which in ("min", "max"))]
        for name, what in lines])


def attempts(f):
    kinds = ("url", "ten receivers")

    def row(name, what):
        return [name, *(f.spread("attempts", f"{kind}{what}") for kind in kinds)]

    return rows_of(["webhooks, answered at once, 256 in flight", "by `url`", "to ten receivers"], [
        row("`attempts: none`", ", attempts: none"), row("`attempts: all`", ", attempts: all"),
        row("all to none", ": all to none"),
        row("an attempt that is kept: CPU of PostgreSQL", ": CPU of PostgreSQL of an attempt that is kept"),
        row("the same, CPU of the relay", ": CPU of the relay of an attempt that is kept")])


def story(f):
    return rows_of(["10,000 receivers, 1,000 of them failing, a million attempts kept", ""], [
        [name, f.spread("story", name)] for name in f.names("story")])


def looks(f):
    return rows_of(["a look that finds one event", "CPU of the backend", "of one at a plain table"], [
        [f"{n} partitions", f.value("looks", f"a look at {n} partitions: CPU of the backend"),
         f.spread("looks", f"a look at {n} partitions: CPU, to one at a plain table")] for n in (4, 12, 24)])


def large(f):
    of = "200,000 events of"
    return rows_of(["200,000 events", "CPU of PostgreSQL's backends", "from COMMIT to the last delivery"], [
        ["of transactions of 1,000", f.value("large", f"{of} many transactions: CPU of the backends"), ""],
        ["of one, open while the relay looks", f.value("large", f"{of} one transaction: CPU of the backends"),
         f.value("large", f"{of} one transaction: from COMMIT to the last delivery")],
        ["the second to the first", f.spread("large", f"{of} one transaction: CPU, to many transactions"), ""]])


def jobs(f):
    names = ["calls, 8 at a time", "calls, 1 at a time",
             *(name for name in f.names("jobs") if name.endswith((" 8 at a time", ", in batches"))
               and not name.startswith("calls"))]
    return rows_of(["jobs that do nothing", "rate", "CPU of PostgreSQL's backends", "CPU of the program"], [
        [name.replace("calls", "pgcourier"), f.spread("jobs", name),
         *(f.spread("jobs", f"{name}: CPU of {whose}") for whose in ("PostgreSQL's backends", "the program"))]
        for name in names])


def jobs_effects(f):
    rows = [["200 a second, COMMIT to the effect: p50 / p99", " / ".join(
        f.spread("jobs", f"200/s, COMMIT to the effect, {name}") for name in ("p50", "p99")), "", ""]]
    for way in ("by default", "four batches in flight", "by a bare COPY and accept_many()"):
        name = f"into a table, {way}"
        rows.append([name, f.spread("jobs", name), f.spread("jobs", f"{name}: CPU of PostgreSQL's backends"),
                     f.spread("jobs", f"{name}: CPU of the program") if "bare" not in way else ""])
    return rows_of(["", "", "CPU of PostgreSQL's backends", "CPU of the program"], rows)


def partitions(f):
    ways = ["one INSERT per transaction", "100 rows per INSERT", "COPY of 10,000 rows"]
    return rows_of(["CPU of the backend for each event", "plain table", "partitioned", "ratio"], [
        [way, *(f.value("partitions", f"{way}, {which}: CPU of the backend")
                for which in ("plain", "partitioned")),
         f.spread("partitions", f"{way}: CPU, partitioned to plain")] for way in ways])


def once(f):
    ways = [("INSERT", "INSERT"), ("`courier.publish()` as a function in SQL", "publish as a function in SQL"),
            ("`courier.publish()`", "courier.publish"), ("with a new dedup key", "with a new dedup key"),
            ("with a repeated dedup key", "with a repeated dedup key")]
    return rows_of(["CPU of the backend for each call", "", "to the function in SQL"], [
        [name, f.value("once", f"{way}: CPU of the backend"),
         f.spread("once", f"{way}: CPU, to the function in SQL") if number >= 2 else ""]
        for number, (name, way) in enumerate(ways)])


def growth(f):
    backlogs = ("10,000", "100,000", "1,000,000", "10,000,000")

    def costs(names):
        return ", ".join(f.bare("growth", f"{name}: CPU of relay and backends") for name in names) + " µs each"

    return rows_of(["CPU of relay and backends", ""], [
        [", ".join(backlogs) + " waiting, from the beginning",
         costs(f"{n} waiting, from its beginning" for n in backlogs)],
        ["the same, from the middle", costs(f"{n} waiting, from its middle" for n in backlogs)],
        ["1, 4, 16 sinks, a delivery", costs(f"{n}, a delivery" for n in ("1 sink", "4 sinks", "16 sinks"))],
        ["payloads of 64 bytes, 1, 16, 256 KiB",
         costs(f"payloads of {n} bytes" for n in ("64", "1,024", "16,384", "262,144"))]])


def delay(f):
    what = "deliver_at to acknowledgement, 1 million wait, "
    return rows_of(["delay, one million waiting", ""], [
        ["`deliver_at` to acknowledgement: p50, p99, max of 400",
         ", ".join(f.value("delay", what + name) for name in ("p50", "p99", "max"))],
        ["delayed events parked", f.value("delay", "delayed events parked")]])


# How a table's row is called, and the bench's name for it.
TAPPED = [("table without a tap", "plain"), ("the same, attached", "attached"),
          ("the same, captured", "captured"), ("`courier.outbox` itself", "outbox")]


def more(f, name, how):
    """What a tap adds to a table without one."""
    return f": {f.spread('attach', f'{how}: a tap adds, {name}')} more"


def taps(f, how, head, statement=None):
    rows = []
    for title, name in TAPPED:
        cells = [f.value("attach", f"{statement}, {name}: the statement")] if statement else []
        cells.append(f.value("attach", f"{how}, {name}: CPU of the backend"))
        if name in ("attached", "captured"):
            cells = [cell + more(f, name, one) for cell, one in zip(cells, filter(None, (statement, how)))]
        if name == "outbox":
            cells[-1] += f", {f.spread('attach', f'{how}: outbox, to that without taps')} of that without taps"
        rows.append([title, *cells])
    return rows_of(head, rows)


def taps_single(f):
    return taps(f, "one INSERT per transaction", [
        "single-row INSERT", "the statement, inside the server",
        "CPU of the backend, with the client's statement and commit"], "one row per INSERT")


def taps_bulk(f):
    return taps(f, "10,000 rows per INSERT", ["bulk, 10,000 rows per INSERT", "CPU of the backend for each row"])


def marks(f):
    def latency_of(marked):
        return ", ".join(f.spread("attach", f"1,000/s through a tap, {marked}: {name}") for name in ("p50", "p99"))

    return rows_of(["marks", ""], [
        ["200,000 rows to mark", f.spread("attach", "marks of 200,000 rows")],
        ["1,000 events/s through a tap, rows marked: p50, p99", latency_of("with marks")],
        ["the same, bare UPDATEs instead: p50, p99", latency_of("bare UPDATEs")],
        ["the same, rows kept: p50, p99", latency_of("no marks")],
        ["a COPY of 1,000,000 rows into a captured table: memory of the backend grows by",
         f.value("attach", "COPY of 1,000,000 rows, captured: memory of the backend grows by")]])


def held(f):
    def row(name, who, what):
        return [name, *(f.value("held", f"{who}, {what}: {which} 10 s") for which in ("first", "last"))]

    rows = []
    for who in ("pgcourier", "lease"):
        rows += [row(f"{who}: rate", who, "events delivered"),
                 row("p50", who, "COMMIT to acknowledgement, p50"),
                 row("p99", who, "COMMIT to acknowledgement, p99"),
                 row("CPU of it and its backends", who, "CPU of it and its backends")]
        if who == "pgcourier":
            rows.append(["table of cursors with its indexes", *(
                f.value("held", f"table of cursors with its indexes: at the {when}")
                for when in ("start", "end"))])
    return rows_of(["a snapshot held for ten minutes, 2,000 events/s", "first 10 s", "last 10 s"], rows)


def targets(f):
    """In the order of the page. The bounds of what the cells judge are theirs."""
    rows = []

    def target(what, wanted, *figures, also=""):
        rows.append([what, wanted, ", ".join(f.spread(*figure) for figure in figures) + also,
                     f.verdict(*figures)])

    def drained(name):
        return "drain", name

    target("drain to Redis with default settings, of `redis-benchmark -P 50`", "at least 0.75",
           drained("redis, default settings: pgcourier to redis-benchmark -P 50"))
    target("batch 1000, against PgQ with a C consumer", "ahead", drained("redis, batch 1000: pgcourier to pgq"))
    ratio = "batch 1000: pgcourier to the best that claims rows"
    target("the same, against the best baseline that claims rows", "3 times", drained(f"redis, {ratio}"),
           also=f"; null {f.value('drain', f'null, {ratio}')}; HTTP {f.value('drain', f'http, {ratio}')}")
    target("the same, events a second", "300,000", drained("redis, batch 1000: pgcourier"))
    target("drain to the null sink, batch 1000", "600,000/s", drained("null, batch 1000: pgcourier"))
    target("the same with default settings, of the bare cursor's with 1000", "1",
           drained("null, default settings: pgcourier to serialised_writers"),
           also=f": {f.value('drain', 'null, default settings: pgcourier')}")
    at_once = "answers at once, 256 in flight"
    target("HTTP, a receiver that answers at once, 256 in flight", "50,000/s, 20 µs",
           ("webhooks", f"url, {at_once}"), ("webhooks", f"url, {at_once}: CPU of the relay"))
    target("the same, of a bare loop", "0.6", ("webhooks", f"{at_once}: url to bare loop"))
    target("the same by TLS, of that without", "0.7", ("webhooks", f"{at_once}: url by TLS to url"),
           also=f"; of the bare loop by TLS {f.value('webhooks', f'{at_once}: url by TLS to bare loop by TLS')}")
    target("HTTP, 100 ms, 1,000 in flight, by `url` and as a row", "9,700/s",
           *(("webhooks", f"{way}, answers after 100 ms, 1,000 in flight") for way in ("url", "receiver")))
    slow = "ten receivers, answers after 1000 ms, 10,000 in flight"
    target("HTTP, 1 s, 10,000 in flight", "9,500/s, 150 MiB",
           ("webhooks", slow), ("webhooks", f"{slow}: peak resident memory"))
    target("a burst to 900 receivers", "35,000 deliveries/s", ("fanout", "900 receivers, a burst"))
    target("900 receivers, an event a second: p50", "20 ms",
           ("fanout", "900/s, none dead: publish to arrival, p50"))
    target("the same, p99, 100 dead to none dead", "1.1", ("fanout", "p99, 100 dead to none dead"))
    tenants = "10,000 receivers, an event a minute for each: "
    target("10,000 receivers, an event a minute for each", "5 % of a core, 120 MiB",
           ("fanout", tenants + "CPU of the relay"), ("fanout", tenants + "resident memory"))
    for kind in ("url", "ten receivers"):
        target(f"`attempts: all`, of `none`; CPU of PostgreSQL for an attempt: {kind}", "0.9; 3 µs",
               ("attempts", f"{kind}: all to none"),
               ("attempts", f"{kind}: CPU of PostgreSQL of an attempt that is kept"))
    target("list, search and stories of 10,000 receivers, each", "100 ms",
           *(("story", name) for name in f.names("story") if name.startswith(("the list", "a search", "the story"))))
    target("the way of an event with 10,000 receivers, by number and by id", "100 ms",
           *(("story", name) for name in f.names("story") if name.startswith("the way")))
    target("the same: peak resident memory of the relay", "150 MiB",
           ("story", "peak resident memory of the relay"))
    target("latency at 100/s: p50, p99", "< 0.5 ms, < 1 ms",
           ("latency", "100/s, idle: p50"), ("latency", "100/s, idle: p99"))
    target("the same, p50 to the floor's", "1.25", ("latency", "100/s, idle: p50 to the floor's"))
    target("latency at 5,000/s: p50, p99", "< 2 ms, < 8 ms",
           ("latency", "5,000/s, idle: p50"), ("latency", "5,000/s, idle: p99"))
    target("the same: CPU of the relay, of its backends", "8 µs and 12 µs an event",
           *(("latency", f"5,000/s, idle: CPU of {whose}") for whose in ("the relay", "its backends")))
    for way, wanted in (("no relay", "0.98"), ("nothing to deliver", "0.98"), ("relay busy", "0.9")):
        target(f"writers, 16 and 64 clients, {way}, of no doorbell", wanted,
               *(("writers", f"{n} clients: our doorbell, {way}, of no doorbell") for n in (16, 64)))
    for other, name, wanted in (("long_transaction", "long transaction", "0.4"), ("lease", "lease", "0.2")):
        target(f"CPU of the database, of the {name}'s", f"at most {wanted}",
               ("cost", f"CPU of its backends, batch 1000: pgcourier to {other}"))
    target("dead rows in the outbox", "none", ("cost", "dead tuples in the outbox, batch 1000: pgcourier"))
    target("a snapshot held for ten minutes: rate, p50 and CPU of the last 10 s to the first",
           "at least 0.97, at most 1.3",
           *(("held", f"pgcourier, {what}: last to first") for what in (
               "events delivered", "COMMIT to acknowledgement, p50", "CPU of it and its backends")))
    target("the same: the table of cursors", "1 MiB", ("held", "table of cursors with its indexes: at the end"))
    idle = "idle, 3 sinks: "
    target("resident memory, idle, three sinks", "12 MiB", ("footprint", idle + "resident memory"),
           also=f", of which {f.bare('footprint', idle + 'of which its own (anonymous)')} are its own")
    target("resident memory at any backlog, default limits", "48 MiB",
           *(("footprint", f"peak resident memory, {what}, drained")
             for what in ("1,000,000 events waiting", "events of 64 KiB waiting")))
    target("CPU of an event, ten million waiting to 10,000, from the beginning and the middle", "1.3",
           *(("growth", f"CPU of an event, 10,000,000 to 10,000 waiting, from its {where}")
             for where in ("beginning", "middle")))
    target("`courier.publish()`, of what it costs as a function in SQL", "1.02",
           ("once", "courier.publish: CPU, to the function in SQL"))
    target("calls of an empty function of PostgreSQL, eight at a time and one", "8,000/s, 2,500/s",
           *(("jobs", f"calls, {n} at a time") for n in (8, 1)))
    target("200 calls a second, COMMIT to the effect: p50", "1.5 ms", ("jobs", "200/s, COMMIT to the effect, p50"))
    target("into a table of another database", "50,000/s", ("jobs", "into a table, by default"))
    return rows_of(["", "target", "measured", ""], rows)


# ---- docs/scaling.md ----------------------------------------------------------------------------

def model_of(f):
    return Model(lambda name: f.one("scaling", name)["median"], lambda name: f.one("relays", name)["median"])


def constants(f):
    m = model_of(f)
    published = [("publish", "an event in a transaction of its own", "own"),
                 ("", "an INSERT more in a transaction that writes anyway", "added"),
                 ("", "one of 100 rows in an INSERT", "bulk")]
    return rows_of(["", "constant", "CPU of PostgreSQL", "WAL"], [
        *([name, what, f"{digits(m.publish_us[how])} µs", f"{digits(m.publish_wal[how])} bytes"]
          for name, what, how in published),
        ["read", "an event, for each sink that reads it; pages full", f"{digits(m.read_us)} µs",
         f.value("scaling", "backlog, 1 shard: WAL", " bytes")],
        ["shard", "the same, for each further shard of the sink that the relay owns", f"{digits(m.shard_us)} µs",
         f"{digits(m.shard_wal)} bytes"],
        ["past", "an event that a relay reads past, because another relay owns its shard",
         f"{digits(m.skip_us)} µs", ""],
        ["awake", "each relay and sink, from some 150 events a second on", f"{digits(m.awake_cores)} cores", ""],
        ["idle", "each further relay, at any rate", f"{digits(m.idle_cores)} cores", ""],
        ["disk", "an event in the outbox, with its indexes", f"{digits(m.disk)} bytes", ""]])


def carries(f):
    """What half of so many cores publish."""
    m, cores = model_of(f), 16
    names = {"own": "each in a transaction of its own", "added": "added to transactions that write anyway",
             "bulk": "100 in an INSERT"}
    rows = []
    for how, name in names.items():
        per_s = round(cores / 2 * 1e6 / m.publish_us[how], -2 if how != "bulk" else -4)
        rows.append([name, f"{per_s:,.0f}/s", f"{size(per_s * m.publish_wal[how])}/s",
                     size(per_s * m.disk * 86400)])
    return rows_of([f"half of {cores} cores publish", "events", "WAL", "outbox, a day"], rows)


def steady(f):
    shapes = ["1 shard", "8 shards", f"{SHARDS} shards", "2 sinks", f"{SHARDS} shards, 2 relays",
              f"{SHARDS} shards, 4 relays"]

    def cell(load, shape, what, unit):
        name = f"{load}, {shape}: {what}"
        return f.value("scaling", name, unit) if name in f.names("scaling") else ""

    whats = (("CPU of the backends", " µs"), ("CPU of the relay", " µs"), ("WAL", " bytes"))
    return rows_of(["for each event and sink: CPU of PostgreSQL, of the relays, WAL", "1,000/s, one in a transaction",
                    "10,000/s, ten in a transaction", "a backlog"],
                   [[shape, *(", ".join(filter(None, (cell(load, shape, *what) for what in whats)))
                              for load in ("1,000/s", "10,000/s in tens", "backlog"))] for shape in shapes])


def of_kinds(f):
    m = model_of(f)
    return rows_of(["kind", "CPU of the relay for each event", "one core is busy with"], [
        [f"`{kind}`", f.spread("scaling", f"backlog to {kind}: CPU of the relay"),
         f"{digits(round(1e6 / m.relay_us[kind], -2))}/s"] for kind in KINDS])


LOADS = [("1,000", 1, Load(1_000, "added", (Sink("redis", 1), Sink("http", 1)), 1, 1, 168)),
         ("50,000", 1, Load(50_000, "added", (Sink("kafka", 1), Sink("http", 0.05)), 2, 8, 6)),
         ("1,000,000", 20, Load(50_000, "bulk", (Sink("kafka", 1),), 2, 8, 1))]


def size(n_bytes):
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB")):
        if n_bytes >= 1000 ** power:
            return f"{digits(n_bytes / 1000 ** power)} {unit}"
    return f"{digits(n_bytes / 1000)} kB"


def examples(f):
    m = model_of(f)

    def row(name, cell):
        return [name, *(cell(load) for _, _, load in LOADS)]

    def times(load, factor, unit, cores):
        return f"{load.per_s:,} × {factor} {unit} = {digits(cores)}"

    def in_all(cell):
        return [cell(n, load) for _, n, load in LOADS]

    return rows_of(["of one database", *(f"{rate}/s" for rate, _, _ in LOADS)], [
        row("events a second", lambda load: f"{load.per_s:,}"),
        row("publishing, cores", lambda load: times(
            load, digits(m.publish_us[load.published]), "µs", m.publishing(load))),
        row("reading, cores", lambda load: times(
            load, f"{len(load.sinks)} × {digits(m.read_each_us(load))}", "µs", m.reading(load))),
        row("awake relays, cores", lambda load: f"{load.relays} × {len(load.sinks)} × {digits(m.awake_cores)}"
                                                f" = {digits(m.awake(load))}"),
        row("**PostgreSQL, cores**", lambda load: f"**{digits(m.database(load))}**"),
        row("delivering, cores", lambda load: " + ".join(
            f"{load.per_s * sink.share:,.0f} × {digits(m.relay_us[sink.kind])} µs" for sink in load.sinks)
            + f" = {digits(m.delivering(load))}"),
        row("**all relays, cores**", lambda load: f"**{digits(m.relays(load))}**"),
        row("WAL", lambda load: f"{size(m.wal_bytes(load))}/s"),
        row("outbox", lambda load: f"{size(m.disk_bytes(load))} for {load.retention_h} h"),
        row("relays; shards of a sink", lambda load: f"{load.relays}; {load.shards}"),
        row("connections of the relays", lambda load: f"{load.relays} × 3 = {load.relays * 3}"),
        ["databases", *in_all(lambda n, load: str(n))],
        ["cores of all databases; of all relays", *in_all(
            lambda n, load: f"{digits(n * m.database(load))}; {digits(n * m.relays(load))}")],
        ["WAL of all databases", *in_all(lambda n, load: f"{size(n * m.wal_bytes(load))}/s")]])


TABLES = {"constants": constants, "carries": carries, "steady": steady, "kinds of sinks": of_kinds, "examples": examples,
          "targets": targets, "drain": drain, "cost": cost, "latency": latency, "latency cpu": latency_cpu,
          "looks": looks, "large": large, "writers": writers, "partitions": partitions, "jobs": jobs, "jobs effects": jobs_effects, "once": once, "peers": peers,
          "peers cost": peers_cost, "webhooks": webhooks, "footprint": footprint, "growth": growth,
          "troubled": troubled, "relays": relays, "fanout": fanout, "delay": delay, "taps": taps_single, "taps bulk": taps_bulk,
          "marks": marks, "held": held, "attempts": attempts, "story": story}


def filled(text, path):
    """The page with its tables as the figures in `path` have them; and the names of those that lack some."""
    lines, lacking, skipping = [], [], False
    for line in text.split("\n"):
        begin = BEGIN.fullmatch(line)
        if line == END:
            skipping = False
        if skipping:
            continue
        lines.append(line)
        if begin:
            figures = Figures(path)
            try:
                table = TABLES[begin[1]](figures)
            except KeyError as missing:
                lacking.append(f"{begin[1]}: {missing}")
                continue
            lines += [*table, "", figures.origin(), ""]
            skipping = True
    return "\n".join(lines), lacking
