"""The one table of a run, and the figures as JSON."""

import json
import operator
import statistics

COLUMNS = "{:<10}  {:<76}{:>10}  {:<9}{:>10}{:>10}"
HOLDS = {">=": operator.ge, "<=": operator.le, "<": operator.lt, ">": operator.gt}


def judged(cell, figure):
    """The figure with its median and, if it has a target ("<= 1.5"), whether that is reached."""
    if "why" in figure:
        return {"cell": cell, **figure}
    median = statistics.median(figure["values"])
    result = {"cell": cell, **figure, "median": median}
    if figure.get("target"):
        sign, bound = figure["target"].split()
        result["reached"] = HOLDS[sign](median, float(bound.replace(",", "")))
    return result


def number(value):
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 or value == 0 else f"{value:.3f}"


def print_table(facts, figures):
    for name, value in facts.items():
        print(f"{name:<16}{value}")
    print()
    print(COLUMNS.format("cell", "figure", "median", "unit", "min", "max") + "  target")
    for figure in figures:
        if not figure["in_table"]:
            continue
        if "why" in figure:
            print(f"{figure['cell']:<10}  {figure['figure']}: {figure['why']}")
            continue
        values = figure["values"]
        spread = (number(min(values)), number(max(values))) if len(values) > 1 else ("", "")
        line = COLUMNS.format(figure["cell"], figure["figure"], number(figure["median"]),
                              figure["unit"], *spread)
        if "reached" in figure:
            line += f"  {figure['target']:<11}{'reached' if figure['reached'] else 'MISSED'}"
        print(line.rstrip())
    with_target = [figure for figure in figures if "reached" in figure]
    if with_target:
        print(f"\n{sum(figure['reached'] for figure in with_target)} of {len(with_target)} targets"
              " reached")


def write_json(path, facts, figures):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"facts": facts, "figures": figures}, file, indent=1)
        file.write("\n")
