"""Bar charts of the tables in docs/benchmarks.md (scripts/pictures)."""

import re

from picture import Picture

OURS = "pgcourier"


def tables(path):
    """Each table's rows as lists of cells, by the first cell of its head."""
    found, rows = {}, []
    for line in [*path.read_text(encoding="utf-8").split("\n"), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            found[rows[0][0]] = [rows[0], *rows[2:]]
            rows = []
    return found


def table(found, start):
    return next(rows for head, rows in found.items() if head.startswith(start))


def number(cell):
    match = re.search(r"[\d,]+(\.\d+)?", cell)
    return float(match[0].replace(",", "")) if match else None


def bars(title, note, groups, unit, label=170):
    """groups: (heading, [(name, value, text)]). The longest bar of each group is as long as fits."""
    height = 58 + sum(30 + 24 * len(rows) for _, rows in groups) + 16
    p = Picture(title, height)
    p.text(20, 30, title, size=15, anchor="start", bold=True)
    p.text(20, 49, note, size=12, colour="soft", anchor="start")
    y = 58
    for heading, rows in groups:
        y += 20
        p.text(20, y, heading, size=12, colour="soft", anchor="start", bold=True)
        y += 10
        longest = max(value for _, value, _ in rows)
        for name, value, text in rows:
            ours = name.startswith(OURS)
            width = max(2, value / longest * (720 - label - 130))
            p.text(label, y + 14, name, size=12.5, anchor="end", bold=ours)
            p.rect(label + 10, y + 2, width, 16, "blue" if ours else "edge", "blue" if ours else "edge", 3)
            p.text(label + 18 + width, y + 14, f"{text}{unit}", size=12, anchor="start", bold=ours)
            y += 24
    return p


def drain(found):
    head, *rows = table(found, "events/s")
    groups = []
    for column, heading in ((1, "to nowhere"), (3, "to Redis Streams"), (5, "to a webhook that answers at once")):
        groups.append((heading, [(row[0].replace(", two readers", ""), number(row[column]), row[column])
                                 for row in rows if number(row[column]) and not row[0].startswith("`")]))
    return bars("A backlog is delivered: events a second", "batches of 1000; more is better", groups, "/s")


def cost(found):
    _, *rows = table(found, "for a million events")
    return bars("What a million events cost the database: seconds of CPU",
                "batches of 1000, to nowhere; less is better",
                [("CPU of PostgreSQL's backends",
                  [(row[0].replace(", without its ticker", ""), number(row[1]), row[1].split(" /")[0])
                   for row in rows])], " s")


def latency(found):
    _, *rows = table(found, "COMMIT's return")
    groups = []
    for row in rows:
        if not row[0].endswith("idle"):
            continue
        rate = row[0].split(",")[0] if row[0].count(",") == 1 else row[0].rsplit(",", 1)[0]
        groups.append((f"{rate.replace('/s', '')} event{'' if rate == '1/s' else 's'} a second",
                       [("pgcourier", number(row[1]), row[1]), ("floor", number(row[4]), row[4])]))
    return bars("From COMMIT's return to Redis' acknowledgement: median",
                "the floor is a loop of LISTEN, SELECT and XADD that promises nothing; each rate has its own scale",
                groups, "", label=110)


def writers(found):
    _, *rows = table(found, "transactions/s, of those")
    groups = []
    for column, clients in ((1, 16), (2, 64)):
        groups.append((f"{clients} clients", [
            (row[0].replace("our doorbell", "pgcourier").replace("with nothing to deliver", "idle"), number(row[column]), row[column].split(" (")[0])
            for row in rows[1:]]))
    return bars("What writers keep: transactions a second, of those without a doorbell",
                "1 is as fast as without; more is better", groups, "", label=250)


PEERS = "program and version"


def peers(found):
    _, *rows = table(found, PEERS)
    groups = [(heading, [(row[0], number(row[column]), row[column].split(" /")[0])
                         for row in rows if number(row[column])])
              for column, heading in ((1, "to Redis Streams, events a second"),
                                      (2, "webhooks to a receiver that answers at once, a second"),
                                      (3, "webhooks to one that answers after 100 ms, a second"),
                                      (5, "from COMMIT to the receiver at 1,000 a second, median in ms: less is better"))]
    return bars("Beside other programs", "each as its documentation advises for throughput; more is better",
                groups, "", label=260)


def draw(path):
    found = tables(path)
    pictures = {"bench-drain": drain(found), "bench-cost": cost(found), "bench-latency": latency(found),
                "bench-writers": writers(found)}
    if any(head.startswith(PEERS) for head in found):
        pictures["bench-peers"] = peers(found)
    return pictures
