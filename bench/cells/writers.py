"""What an event costs the transaction that publishes it: pgbench with 1, 16 and 64 clients.

Each transaction inserts a row of the application's and an event. What differs is what tells a relay
of it; all ways of one round follow one another and are compared with the round's own `no doorbell`.
A relay that is busy takes cores from the writers too, whatever the doorbell costs: the rows with a
relay that finds nothing to deliver (its sink wants none of the topics) tell the two apart.
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
OURS = "ALTER TABLE courier.outbox ALTER txid SET DEFAULT {bell}"
BELL = "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'courier.outbox'::regclass AND adnum = 1"


def notify(each):
    return f"""{NO_BELL}; CREATE TRIGGER notify_always AFTER INSERT ON courier.outbox
               FOR EACH {each} EXECUTE FUNCTION public.notify_always()"""


# What it is called, how the table is prepared, what the relay's sink wants, what the writers do.
BASE = "no doorbell"
IDLE = "our doorbell, nothing to deliver"
BUSY, ALONE = "our doorbell, relay busy", "our doorbell, no relay"
WAYS = [(BASE, NO_BELL, None, ""),
        (BUSY, OURS, "**", ""),
        (IDLE, OURS, "nothing.of.this", ""),
        (ALONE, OURS, None, ""),
        ("NOTIFY per transaction", notify("STATEMENT"), None, ""),
        ("NOTIFY per row", notify("ROW"), None, ""),
        ("writes behind an advisory lock", NO_BELL, None, LOCK)]
TARGETS = {(way, n): least for way, least in ((BUSY, ">= 0.9"), (IDLE, ">= 0.98"), (ALONE, ">= 0.98"))
           for n in CLIENTS[1:]}


def pgbench(rig, n_clients, script, user="app"):
    """How many transactions, and how many a second."""
    path = f"{rig.folder}/writers.sql"
    with open(path, "w", encoding="utf-8") as file:
        file.write(script)
    said = subprocess.run(
        [f"{os.environ['PG_BIN']}/pgbench", "-n", "-M", "prepared", "-c", str(n_clients), "-j", "2",
         "-T", str(round(SECONDS * rig.longer)), "-f", path, "-h", rig.folder, "-U", user, "bench"],
        text=True, capture_output=True, check=False)
    rate = re.search(r"tps = ([\d.]+) \(without initial", said.stdout)
    n = re.search(r"transactions actually processed: (\d+)", said.stdout)
    if said.returncode != 0 or not rate or not n:
        raise RuntimeError(f"pgbench failed: {said.stderr[-500:]}")
    return {"per_s": float(rate.group(1)), "n": int(n.group(1))}


def writers_cpu_s(rig):
    """CPU seconds of all backends that have ended: the postmaster's account of its children."""
    await_true(lambda: not rig.backends("pgbench"), "end of pgbench's backends")
    with open(f"{rig.folder}/data/postmaster.pid", encoding="ascii") as file:
        postmaster = int(file.readline())
    with open(f"/proc/{postmaster}/stat", encoding="ascii") as file:
        user, system = file.read().rpartition(")")[2].split()[13:15]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def run_pgbench(rig, n_clients, before_insert):
    before = writers_cpu_s(rig)
    result = pgbench(rig, n_clients, SCRIPT % (before_insert, "x" * 200))
    result["cpu_us"] = (writers_cpu_s(rig) - before) * 1e6 / result["n"]
    return result


def measure(rig, prepare, wanted, before_insert, n_clients):
    """Transactions a second, and what share of a core the relay and its backends had meanwhile."""
    rig.sql("DROP TRIGGER IF EXISTS notify_always ON courier.outbox")
    rig.sql(prepare)
    if wanted is None:
        return run_pgbench(rig, n_clients, before_insert)
    with rig.relay("writers", [rig.redis_sink("writers", topics=wanted)]) as relay:
        pids = [relay.pid, *rig.backends("writers")]
        before = sum(cpu_s(pid) for pid in pids)
        result = run_pgbench(rig, n_clients, before_insert)
        result["cores"] = (sum(cpu_s(pid) for pid in pids) - before) / (SECONDS * rig.longer)
        if wanted == "**":
            await_true(lambda: relay.is_alive() and rig.stream_lengths() >= result["n"], "all events")
    return result


def run(rig):
    results = {}
    # Half as many rounds as elsewhere, each run twice as long: pgbench takes whole seconds.
    n_rounds = max(1, (rig.repeat + 1) // 2)
    rig.sql(TABLES)
    ours = OURS.format(bell=rig.sql(BELL)[0][0])
    for turn in range(1, n_rounds + 1):
        for n_clients in CLIENTS:
            for way, prepare, wanted, before_insert in WAYS if turn % 2 else reversed(WAYS):
                progress(f"turn {turn} of {n_rounds}: {n_clients} clients, {way}")
                empty(rig)
                results.setdefault((way, n_clients), []).append(
                    measure(rig, ours if prepare == OURS else prepare, wanted, before_insert, n_clients))
    rig.sql("DROP TRIGGER IF EXISTS notify_always ON courier.outbox")
    rig.sql(ours)
    rig.sql("DROP TABLE public.purchase")
    rig.sql("DROP FUNCTION public.notify_always()")
    empty(rig)
    return [one for n_clients in CLIENTS for way, *_ in WAYS
            for one in figures(results, way, n_clients)]


def figures(results, way, n_clients):
    base, turns = results[BASE, n_clients], results[way, n_clients]
    what = f"{n_clients} client{'s' if n_clients > 1 else ''}: {way}"
    lines = [figure(what, "per s", [turn["per_s"] for turn in turns])]
    if way != BASE:
        lines.append(figure(f"{what}, of no doorbell", "ratio", [
            turn["per_s"] / of_base["per_s"] for turn, of_base in zip(turns, base)],
            TARGETS.get((way, n_clients))))
    lines.append(figure(f"{what}: CPU of the writers' backends", "us each",
                        [turn["cpu_us"] for turn in turns], in_table=n_clients == 16))
    if "cores" in turns[0]:
        lines.append(figure(f"{what}: relay and its backends", "cores", [turn["cores"] for turn in turns]))
    return lines
