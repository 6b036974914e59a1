"""What one look at the outbox costs PostgreSQL, by how many partitions there are.

The statement is the program's own, src/outbox/page.sql as a lane asks for it whose cursor is at the end,
and finds one event each time; the sessions' settings are the program's, too. Beside it the same statement
at a plain table with the same rows, all on one core: the distance to another one changes more. Shown is
the CPU time of the backend for each look; partitions and plain table are asked in turns, and the ratio is
the median of those of neighbouring batches.
"""

import os
import re
import statistics

import psycopg2

from rig import cpu_s, figure, progress

PAGE = os.path.join(os.path.dirname(__file__), "..", "page.sql")
LOOKS = 500  # of a batch: the machine's pace changes within seconds
BATCHES = 20  # of a turn, for each table
CORE = 0
PARTITIONS = (4, 12, 24)  # a week's are about eleven
SETTINGS = ("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;"
            " SET enable_bitmapscan = off; SET jit = off")
CELL = "AND id >= 1 AND id <= 262144\n"
TYPES = {"above": "bigint", "upto": "bigint", "from_floor": "bigint",
         "max_events": "integer", "max_event_bytes": "bigint"}


def page_statement(table):
    """The page that opens a difference without stragglers and without conditions, in the first cell."""
    lines, skipped = [], []
    with open(PAGE, encoding="utf-8") as page:
        for line in page:
            if line.startswith("--if "):
                skipped.append(line[5:].strip() != "opening")
            elif line.startswith("--end"):
                skipped.pop()
            elif line.strip() == "$cell":
                lines.append(CELL)
            elif not any(skipped) and not line.strip().startswith("--") and line.strip() != "$conditions":
                lines.append(line)
    names = list(TYPES)
    sql = re.sub(r"\$([a-z_]+)", lambda name: f"${names.index(name[1]) + 1}", "".join(lines))
    return f"PREPARE look ({', '.join(TYPES.values())}) AS " + sql.replace("courier.outbox\n", table + "\n")


class Looker:
    def __init__(self, outbox, table):
        self.connection = psycopg2.connect(outbox.dsn("postgres"))
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        os.sched_setaffinity(self.connection.get_backend_pid(), {CORE})
        self.cursor.execute(SETTINGS)
        self.cursor.execute(page_statement(table))
        self.cursor.execute("SELECT max(id) FROM courier.outbox")
        last = self.cursor.fetchone()[0]
        self.statement = f"EXECUTE look ({last - 1}, {last + 10000}, {last - 1}, 1000, 16000000)"
        self.look(100)

    def look(self, n_looks):
        pid = self.connection.get_backend_pid()
        before = cpu_s(pid)
        for _ in range(n_looks):
            self.cursor.execute(self.statement)
        assert self.cursor.rowcount == 2, "the frame and the event"
        return (cpu_s(pid) - before) * 1e6 / n_looks


def add_partitions(outbox, n_partitions):
    while outbox.sql("SELECT count(*) FROM courier.outbox_partition")[0][0] < n_partitions:
        first = outbox.sql("SELECT max(upper) FROM courier.outbox_partition")[0][0]
        outbox.sql(f"CREATE TABLE courier.outbox_p{first} PARTITION OF courier.outbox"
                   f" FOR VALUES FROM ({first}) TO ({first + 1000000})")
        outbox.sql(f"INSERT INTO courier.outbox_partition (name, lower, upper)"
                   f" VALUES ('outbox_p{first}', {first}, {first + 1000000})")


def run(rig):
    outbox = rig.new_database("looks")
    outbox.sql("INSERT INTO courier.outbox (topic, payload) SELECT 'a', '1' FROM generate_series(1, 1000)")
    outbox.sql("CREATE TABLE public.plain (LIKE courier.outbox INCLUDING ALL)")
    outbox.sql("INSERT INTO public.plain OVERRIDING SYSTEM VALUE SELECT * FROM courier.outbox")
    figures, cores = [], os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CORE})
    for n_partitions in PARTITIONS:
        add_partitions(outbox, n_partitions)
        lookers = [Looker(outbox, table) for table in ("courier.outbox", "public.plain")]
        turns = []
        for turn in range(1, rig.repeat + 1):
            progress(f"{n_partitions} partitions, turn {turn} of {rig.repeat}")
            batches = [[looker.look(LOOKS) for looker in lookers] for _ in range(BATCHES)]
            turns.append([statistics.median(ours for ours, _ in batches),
                          statistics.median(ours / plain for ours, plain in batches)])
        for looker in lookers:
            looker.connection.close()
        what = f"a look at {n_partitions} partitions"
        figures += [figure(f"{what}: CPU of the backend", "us each", [cpu_us for cpu_us, _ in turns]),
                    figure(f"{what}: CPU, to one at a plain table", "ratio", [ratio for _, ratio in turns])]
    os.sched_setaffinity(0, cores)
    rig.drop_database(outbox)
    return figures
