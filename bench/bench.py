"""Runs cells of the benchmark and prints one table: bench.py FOLDER [CELL...]

A cell is a file of bench/cells/ with run(rig), which returns a list of figures (rig.figure).
"""

import importlib
import os
import sys
import time

import machine
from progress import begin, clear
from rig import Rig
from table import judged, print_table, write_json

# In this order when none is named: what fills the outbox comes last. `brokers`, `peers` and `scaling`, which
# need servers and programs of their own, are only run when they are named.
CELLS = ["latency", "writers", "attach", "partitions", "once", "looks", "large", "held", "fanout", "webhooks",
         "footprint", "relays", "growth", "troubled", "delay", "cost", "drain"]


def main():
    folder, *cells = sys.argv[1:]
    cells = cells or CELLS
    rig = Rig(folder, repeat=int(os.environ.get("REPEAT", 3)),
              events=int(os.environ.get("EVENTS", 1_000_000)),
              longer=float(os.environ.get("LONGER", 1)))
    facts = machine.facts(rig)
    cores = machine.Cores()
    figures, took = [], []
    try:
        for number, cell in enumerate(cells, 1):
            begin(f"{cell} ({number} of {len(cells)})")
            began = time.monotonic()
            figures += [judged(cell, figure)
                        for figure in importlib.import_module(f"cells.{cell}").run(rig)]
            took.append(f"{cell} {time.monotonic() - began:.0f} s")
    finally: # what has been measured is shown even if a later cell failed
        facts["load after"] = machine.load()
        facts["cores during"] = cores.used()
        facts["cells took"] = ", ".join(took)
        write_json(f"{folder}/results.json", facts, figures)
        clear()
        print()
        print_table(facts, figures)


main()
