"""What the partitions of the outbox cost those who publish, and what a plain table would.

Two databases of one server, with the same doorbell, indexes, checks and rights; in one the outbox is not
partitioned. Batches of the same statements go to both in turns, over one connection each. Shown
is the CPU time of the backend for each event, and how many a second there are. Commits do not wait for
the disk: what the flushes cost differs by more than what is to be seen. The ratio of a turn is the median
of those of neighbouring batches.
"""

import io
import statistics
import time

import psycopg2

from rig import PAYLOAD_BYTES, TOPICS, cpu_s, figure, progress

LONE, ROWS, COPIED = "one INSERT per transaction", "100 rows per INSERT", "COPY of 10,000 rows"
EVENTS = {LONE: 250, ROWS: 2500, COPIED: 10_000}  # of a batch: the machine's pace changes within seconds
BATCHES = {LONE: 60, ROWS: 60, COPIED: 20}  # of a turn, for each table
OURS, PLAIN = "partitioned", "plain"

# The outbox as it is, without its partitions. What else names the table does not matter to writers.
MAKE_PLAIN = """
    ALTER TABLE courier.outbox RENAME TO outbox_with_partitions;
    CREATE TABLE courier.outbox (LIKE courier.outbox_with_partitions INCLUDING ALL);
    GRANT INSERT (event_id, topic, key, type, payload, data, headers, deliver_at)
      ON courier.outbox TO courier_publisher"""
PREPARE = """
    PREPARE lone (text, text, json) AS
      INSERT INTO courier.outbox (topic, key, type, payload) VALUES ($1, $2, 'order', $3);
    PREPARE rows (integer) AS
      INSERT INTO courier.outbox (topic, key, type, payload)
      SELECT '%s', 'customer-' || n, 'order', '%s'::json FROM generate_series($1, $1 + 99) AS n"""
PAYLOAD = '{"note": "' + "x" * (PAYLOAD_BYTES - 12) + '"}'


class Writer:
    def __init__(self, outbox):
        self.connection = psycopg2.connect(outbox.dsn("app"))
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.cursor.execute("SET synchronous_commit = off")
        self.cursor.execute(PREPARE % (TOPICS[0], PAYLOAD))
        self.pid = self.connection.get_backend_pid()

    def write(self, how, n_events):
        if how == LONE:
            for n in range(n_events):
                self.cursor.execute("EXECUTE lone (%s, %s, %s)", (TOPICS[0], f"customer-{n}", PAYLOAD))
        elif how == ROWS:
            for first in range(0, n_events, 100):
                self.cursor.execute("EXECUTE rows (%s)", (first,))
        else:
            lines = "".join(f"{TOPICS[0]}\tcustomer-{n}\torder\t{PAYLOAD}\n" for n in range(n_events))
            self.cursor.copy_expert(
                "COPY courier.outbox (topic, key, type, payload) FROM STDIN", io.StringIO(lines))

    def batch(self, how):
        cpu, begin = cpu_s(self.pid), time.perf_counter()
        self.write(how, EVENTS[how])
        return {"cpu_s": cpu_s(self.pid) - cpu, "s": time.perf_counter() - begin}


def measure(writers, how):
    """Of each table: CPU microseconds of an event, and events a second; and the ratio of the CPU."""
    spent = {name: [] for name in writers}
    for batch in range(BATCHES[how]):
        for name in sorted(writers, reverse=batch % 2 == 1):
            spent[name].append(writers[name].batch(how))
    n_events = BATCHES[how] * EVENTS[how]
    result = {name: {"cpu_us": sum(one["cpu_s"] for one in batches) * 1e6 / n_events,
                     "per_s": n_events / sum(one["s"] for one in batches)}
              for name, batches in spent.items()}
    result["ratio"] = statistics.median(
        ours["cpu_s"] / plain["cpu_s"] for ours, plain in zip(spent[OURS], spent[PLAIN]))
    return result


def run(rig):
    outboxes = {OURS: rig.new_database("partitions_ours"), PLAIN: rig.new_database("partitions_plain")}
    outboxes[PLAIN].sql(MAKE_PLAIN)
    results = {how: [] for how in EVENTS}
    for turn in range(1, rig.repeat + 1):
        for how, turns in results.items():
            progress(f"turn {turn} of {rig.repeat}: {how}")
            for outbox in outboxes.values():
                outbox.sql("TRUNCATE courier.outbox RESTART IDENTITY")
            rig.sql("CHECKPOINT")
            writers = {name: Writer(outbox) for name, outbox in outboxes.items()}
            for writer in writers.values():
                writer.write(how, EVENTS[how])  # what is only done once, is done
            turns.append(measure(writers, how))
            for writer in writers.values():
                writer.connection.close()
    for outbox in outboxes.values():
        rig.drop_database(outbox)
    return [line for how, turns in results.items() for line in figures(how, turns)]


def figures(how, turns):
    lines = []
    for name in (PLAIN, OURS):
        lines += [figure(f"{how}, {name}: CPU of the backend", "us each",
                         [turn[name]["cpu_us"] for turn in turns]),
                  figure(f"{how}, {name}", "per s", [turn[name]["per_s"] for turn in turns])]
    return lines + [figure(f"{how}: CPU, partitioned to plain", "ratio",
                           [turn["ratio"] for turn in turns])]
