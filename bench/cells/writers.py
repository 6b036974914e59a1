"""What an event costs the transaction that publishes it: pgbench with 1, 16 and 64 clients.

Each transaction inserts a row of the application's and an event. What differs is what tells a relay
of it. The machine's pace changes within seconds, so each way has a database and a relay of its own,
and runs of two seconds take turns with `no doorbell` in another database: a ratio is of neighbours in
time. A relay that is busy takes cores from the writers too, whatever the doorbell costs: the rows
with a relay that finds nothing to deliver (its sink wants none of the topics) tell the two apart.
"""

import os
import re
import subprocess
from contextlib import nullcontext

from load import empty
from rig import await_true, cpu_s, figure, progress

CLIENTS = [1, 16, 64]
SECONDS = 2

TABLES = """
    CREATE TABLE public.purchase (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      customer integer NOT NULL,
      amount integer NOT NULL,
      bought_at timestamptz NOT NULL DEFAULT now());
    GRANT INSERT ON public.purchase TO app;
    CREATE FUNCTION public.notify_always() RETURNS trigger LANGUAGE plpgsql AS
      $$BEGIN PERFORM pg_catalog.pg_notify('someone', ''); RETURN NULL; END$$"""
SCRIPT = r"""
\set customer random(1, 1000)
BEGIN;
INSERT INTO public.purchase (customer, amount) VALUES (:customer, 17);
%sINSERT INTO courier.outbox (topic, key, type, payload) VALUES
  ('orders.created', 'customer-' || :customer, 'order', '{"note": "%s"}');
COMMIT;
"""
LOCK = "SELECT pg_advisory_xact_lock(42);\n"
NO_BELL = "ALTER TABLE courier.outbox ALTER txid SET DEFAULT pg_current_xact_id()"
NOTIFY = f"""{NO_BELL}; CREATE TRIGGER notify_always AFTER INSERT ON courier.outbox
             FOR EACH STATEMENT EXECUTE FUNCTION public.notify_always()"""

# What it is called, how its database is prepared, what the relay's sink wants, what the writers do.
BASE = "no doorbell"
WAYS = [("our doorbell, relay busy", "", "**", ""),
        ("our doorbell, nothing to deliver", "", "nothing.of.this", ""),
        ("our doorbell, no relay", "", None, ""),
        ("NOTIFY per transaction", NOTIFY, None, ""),
        ("writes behind an advisory lock", NO_BELL, None, LOCK)]
TARGETS = dict(zip((way for way, *_ in WAYS), (">= 0.9", ">= 0.98", ">= 0.98")))


def pgbench(rig, n_clients, script, user="app"):
    """How many transactions, and how many a second."""
    path = f"{rig.folder}/writers.sql"
    with open(path, "w", encoding="utf-8") as file:
        file.write(script)
    said = subprocess.run(
        [f"{os.environ['PG_BIN']}/pgbench", "-n", "-M", "prepared", "-c", str(n_clients), "-j", "2",
         "-T", str(round(SECONDS * rig.longer)), "-f", path, "-h", rig.folder, "-U", user, rig.database],
        text=True, capture_output=True, check=False)
    rate = re.search(r"tps = ([\d.]+) \(without initial", said.stdout)
    n = re.search(r"transactions actually processed: (\d+)", said.stdout)
    if said.returncode != 0 or not rate or not n:
        raise RuntimeError(f"pgbench failed: {said.stderr[-500:]}")
    return {"per_s": float(rate.group(1)), "n": int(n.group(1))}


def writers_cpu_s(rig):
    """CPU seconds of all backends that have ended: the postmaster's account of its children."""
    with open(f"{rig.folder}/data/postmaster.pid", encoding="ascii") as file:
        postmaster = int(file.readline())

    def is_reaped():
        with open(f"/proc/{postmaster}/task/{postmaster}/children", encoding="ascii") as file:
            return set(map(int, file.read().split())) == {
                pid for pid, in rig.sql("SELECT pid FROM pg_stat_activity")}

    await_true(lambda: not rig.backends("pgbench") and is_reaped(), "end of pgbench's backends")
    with open(f"/proc/{postmaster}/stat", encoding="ascii") as file:
        user, system = file.read().rpartition(")")[2].split()[13:15]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def run_pgbench(outbox, n_clients, before_insert=""):
    before = writers_cpu_s(outbox)
    result = pgbench(outbox, n_clients, SCRIPT % (before_insert, "x" * 200))
    result["cpu_us"] = (writers_cpu_s(outbox) - before) * 1e6 / result["n"]
    return result


def measure(outbox, relay, n_clients, before_insert):
    """Transactions a second, and what share of a core the relay and its backends had meanwhile."""
    pids = [relay.pid, *outbox.backends("writers")] if relay else []
    before = sum(cpu_s(pid) for pid in pids)
    result = run_pgbench(outbox, n_clients, before_insert)
    result["cores"] = (sum(cpu_s(pid) for pid in pids) - before) / (SECONDS * outbox.longer)
    return result


def turns(base, outbox, way, n_clients, n_turns):
    """[(without a doorbell, this way)] of neighbours in time."""
    _, _, wanted, before_insert = way
    for one in (base, outbox):
        empty(one)
    pairs, n_written = [], 0
    sinks = [outbox.redis_sink("writers", topics=wanted)] if wanted else []
    with outbox.relay("writers", sinks) if sinks else nullcontext() as relay:
        for turn in range(n_turns):
            if turn % 2 == 0:
                without = run_pgbench(base, n_clients)
            result = measure(outbox, relay, n_clients, before_insert)
            n_written += result["n"]
            if wanted == "**":
                await_true(lambda: relay.is_alive() and outbox.stream_lengths() >= n_written, "all events")
            if turn % 2 == 1:
                without = run_pgbench(base, n_clients)
            pairs.append((without, result))
    return pairs


def new_outbox(rig, name, prepare):
    outbox = rig.new_database(name)
    outbox.sql(TABLES)
    if prepare:
        outbox.sql(prepare)
    return outbox


def run(rig):
    results = {}
    base = new_outbox(rig, "writers_base", NO_BELL)
    for way in WAYS:
        outbox = new_outbox(rig, "writers_way", way[1])
        for n_clients in CLIENTS:
            progress(f"{n_clients} clients, {way[0]}")
            # One client alone shows no contention, and ways without a target differ by much.
            n_turns = rig.repeat if way[0] in TARGETS and n_clients > 1 else (rig.repeat + 2) // 3
            results[way[0], n_clients] = turns(base, outbox, way, n_clients, n_turns)
        rig.drop_database(outbox)
    rig.drop_database(base)
    return [line for n_clients in CLIENTS for line in figures(results, n_clients)]


def figures(results, n_clients):
    clients = f"{n_clients} client{'s' if n_clients > 1 else ''}"
    bases = [without for way, *_ in WAYS for without, _ in results[way, n_clients]]
    lines = [figure(f"{clients}: {BASE}", "per s", [one["per_s"] for one in bases]),
             figure(f"{clients}: {BASE}: CPU of the writers' backends", "us each",
                    [one["cpu_us"] for one in bases], in_table=n_clients == 16)]
    for way, _, wanted, _ in WAYS:
        pairs, what = results[way, n_clients], f"{clients}: {way}"
        lines += [
            figure(what, "per s", [one["per_s"] for _, one in pairs]),
            figure(f"{what}, of {BASE}", "ratio",
                   [one["per_s"] / without["per_s"] for without, one in pairs],
                   TARGETS.get(way) if n_clients > 1 else None),
            figure(f"{what}: CPU of the writers' backends, of {BASE}", "ratio",
                   [one["cpu_us"] / without["cpu_us"] for without, one in pairs], in_table=n_clients == 16)]
        if wanted:
            lines.append(figure(f"{what}: relay and its backends", "cores",
                                [one["cores"] for _, one in pairs]))
    return lines
