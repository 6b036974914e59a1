"""Runs cells of the benchmark and prints one table: bench.py FOLDER [CELL...]

A cell is a file of bench/cells/ with run(rig), which returns a list of figures (rig.figure).
"""

import importlib
import json
import os
import statistics
import sys

from rig import Rig, progress

# In this order when none is named: what fills the outbox comes last.
CELLS = ["latency", "fanout", "webhooks", "footprint", "delay", "drain"]


def number(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 100 else f"{value:.1f}"


def print_table(facts, figures):
    print()
    for name, value in facts.items():
        print(f"{name:<12}{value}")
    print(f"\n{'cell':<11}{'figure':<58}{'median':>10}  {'unit':<10}{'min':>10}{'max':>10}")
    for figure in figures:
        values = figure["values"]
        spread = (number(min(values)), number(max(values))) if len(values) > 1 else ("", "")
        print(f"{figure['cell']:<11}{figure['figure']:<58}{number(figure['median']):>10}  "
              f"{figure['unit']:<10}{spread[0]:>10}{spread[1]:>10}")


def main():
    folder, *cells = sys.argv[1:]
    rig = Rig(folder, repeat=int(os.environ.get("REPEAT", 3)),
              events=int(os.environ.get("EVENTS", 500_000)))
    facts = rig.facts()
    figures = []
    for cell in cells or CELLS:
        progress(f"{cell}:")
        for figure in importlib.import_module(f"cells.{cell}").run(rig):
            figure = {"cell": cell, **figure, "median": statistics.median(figure["values"])}
            figures.append(figure)
    facts["load after"] = rig.load()
    with open(f"{folder}/results.json", "w", encoding="utf-8") as file:
        json.dump({"facts": facts, "figures": figures}, file, indent=1)
        file.write("\n")
    print_table(facts, figures)


main()
