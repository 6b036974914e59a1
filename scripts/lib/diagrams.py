"""The pictures of docs/architecture.md (scripts/pictures)."""

from picture import Picture


def event():
    """The way of one event; the numbers are those of the list below it."""
    p = Picture("The way of an event, from your transaction to the sink and to the cursor", 476)
    for x, title in ((118, "PostgreSQL"), (374, "pgcourier"), (628, "the world")):
        p.text(x, 30, title, size=12, colour="soft", bold=True)
    p.rect(262, 42, 224, 418, "paper", "frame", dash="4 4")
    p.rect(18, 42, 200, 418, "paper", "frame", dash="4 4")

    p.box(32, 56, 172, 58, "your transaction", ["INSERT … COMMIT"], "bluebox", "blue")
    p.box(32, 150, 172, 58, "courier.outbox", ["the log"], "bluebox", "blue", mono=True)
    p.box(32, 356, 172, 90, "courier.cursor", [], "bluebox", "blue", mono=True)
    p.parts.pop() # three names instead of a centred title
    for i, name in enumerate(("courier.cursor", "courier.parked", "courier.dead_letter")):
        p.text(118, 382 + 22 * i, name, mono=True, bold=True)

    steps = [("1", "wakeup/", "a notification, or a look"), ("2", "outbox/", "read a page"),
             ("3", "lane/", "decide"), ("4", "delivery/", "carry out")]
    for i, (number, folder, what) in enumerate(steps):
        step(p, 276, 56 + 80 * i, number, folder, what)
    step(p, 276, 376, "6", "outbox/", "settle: one statement")
    for i in range(3):
        p.arrow([(374, 112 + 80 * i), (374, 134 + 80 * i)])
    p.arrow([(374, 352), (374, 374)])

    p.box(536, 296, 166, 56, "sinks/", ["redis, http, email, …"], "greenbox", "green", mono=True)
    p.text(550, 316, "5", size=12, colour="green", bold=True)
    p.box(536, 400, 166, 46, "destination", [], "box", "edge")
    p.arrow([(472, 324), (534, 324)])
    p.text(511, 316, "attempt", size=11, colour="soft")
    p.arrow([(600, 352), (600, 398)])
    p.arrow([(640, 400), (640, 354)])
    p.text(592, 380, "event", size=11, colour="soft", anchor="end")
    p.text(648, 380, "answer", size=11, colour="soft", anchor="start")
    p.arrow([(619, 296), (619, 244), (474, 244)])
    p.text(546, 236, "outcome", size=11, colour="soft")

    p.arrow([(118, 114), (118, 148)], "blue")
    p.text(126, 136, "rows", size=11, colour="soft", anchor="start")
    p.arrow([(204, 85), (274, 85)], "blue")
    p.text(240, 77, "NOTIFY", size=11, colour="soft")
    p.arrow([(204, 172), (274, 172)], "blue")
    p.text(240, 164, "events", size=11, colour="soft")
    p.arrow([(276, 404), (206, 404)], "blue")
    p.text(240, 396, "position", size=11, colour="soft")
    p.arrow([(118, 356), (118, 282), (240, 282), (240, 188), (274, 188)], "blue", dash="5 4")
    p.text(112, 300, "7", size=12, colour="blue", bold=True, anchor="end")
    p.text(112, 316, "parked events", size=11, colour="soft", anchor="end")
    p.text(112, 331, "come back", size=11, colour="soft", anchor="end")
    return p


def step(p, x, y, number, folder, what):
    p.rect(x, y, 196, 56, "greenbox", "green")
    p.text(x + 14, y + 20, number, size=12, colour="green", bold=True)
    p.text(x + 98, y + 24, folder, size=14, bold=True, mono=True)
    p.text(x + 98, y + 43, what, size=12, colour="soft")


def difference():
    """Transactions as bars in time; two frames cut them."""
    p = Picture("Which events the difference of two snapshots holds", 404)
    left, one, two, right = 46, 262, 556, 606
    for x, name, lines in ((one, "frame 1", (0, 14, 28)), (two, "frame 2", (0,))):
        p.text(x + (14 if len(lines) > 1 else 0), 30, name, size=13, bold=True, colour="purple")
        for offset in lines:
            p.line(x + offset, 62, x + offset, 334, "purple", 1.4, "" if offset == 0 else "3 3")
    p.text(one - 4, 52, "snapshot", size=11, colour="purple", anchor="end")
    p.text(one + 14, 52, "floor", size=11, colour="purple")
    p.text(one + 32, 52, "xid", size=11, colour="purple", anchor="start")
    p.text(two, 52, "snapshot", size=11, colour="purple")
    rows = [
        (66, 196, "box", "edge", "before", "101"),
        (110, 352, "amberbox", "amber", "straggler", "102"),
        (270, 430, "amberbox", "amber", "straggler", "103"),
        (322, 468, "greenbox", "green", "new", "104"),
        (374, 520, "greenbox", "green", "new", "106"),
        (440, 600, "paper", "edge", "later", "107"),
        (66, 600, "paper", "edge", "later", "100"),
    ]
    for i, (begin, end, fill, stroke, name, number) in enumerate(rows):
        y = 70 + 38 * i
        dash = "4 3" if name == "later" else ""
        p.rect(begin, y, end - begin, 26, fill, stroke, 5, dash)
        colour = {"straggler": "amber", "new": "green"}.get(name, "soft")
        p.text(begin + 10, y + 17, number, size=12, mono=True, bold=True, anchor="start", colour="ink")
        p.text(622, y + 17, name, size=13, colour=colour, anchor="start", bold=name in ("straggler", "new"))
    p.arrow([(left, 352), (right, 352)])
    p.text(left, 372, "time; a bar is a transaction from its first id to its commit", size=12, colour="soft",
           anchor="start")
    p.text(left, 392, "The difference of the two frames: 102, 103, 104, 106, in this order. 105 was rolled back.",
           size=12, anchor="start", bold=True)
    return p


def doorbell():
    p = Picture("The states of the doorbell, and what changes them", 380)
    nodes = {"ASLEEP": (24, ["K is ours: writers ring", "looks when rung"], "bluebox", "blue"),
             "DROWSY": (270, ["waits for K: writers ring", "looks when rung, and", "at growing intervals"],
                        "amberbox", "amber"),
             "AWAKE": (516, ["K is free: writers skip it", "looks by itself, about", "every millisecond"],
                       "greenbox", "green")}
    for name, (x, lines, fill, stroke) in nodes.items():
        p.box(x, 120, 180, 92, name, lines, fill, stroke)
    p.box(270, 298, 180, 58, "OFF", ["no lane is ours: no look"])
    p.arrow(None, "green", curve="M114 118 C 114 30, 630 30, 630 118")
    p.text(360, 42, "rung often: gives K up", size=12, colour="green")
    p.arrow(None, "green", curve="M400 118 C 430 84, 520 84, 556 118")
    p.text(478, 84, "rung often", size=12, colour="green")
    p.arrow([(270, 152), (208, 152)], "blue")
    p.text(237, 144, "K granted", size=12, colour="blue")
    p.arrow([(204, 184), (266, 184)], "amber")
    p.text(237, 202, "K lost", size=12, colour="amber")
    p.arrow([(516, 166), (454, 166)], "amber")
    p.text(483, 158, "few", size=12, colour="amber")
    p.arrow([(345, 298), (345, 216)], "amber")
    p.text(335, 262, "a lane is ours", size=12, colour="soft", anchor="end")
    p.arrow([(375, 212), (375, 294)])
    p.text(385, 262, "no lane left, or SIGTERM (from any state)", size=12, colour="soft", anchor="start")
    notes = [(24, ["K: an advisory lock.", "K granted: one more look, then sleep.",
                   "K lost: its connection broke."]),
             (474, ["often: 8 rings within 20 ms, or", "writers that wait to notify.",
                    "few: under 15 events in 0.1 s."])]
    for x, lines in notes:
        for i, line in enumerate(lines):
            p.text(x, 314 + 18 * i, line, size=12, colour="soft", anchor="start")
    return p


def chip(p, x, y, key, number, kind):
    fill, stroke, dash = {"plain": ("box", "edge", ""), "at": ("bluebox", "blue", ""),
                          "done": ("greenbox", "green", ""), "failed": ("redbox", "red", ""),
                          "retry": ("amberbox", "amber", ""), "blocked": ("paper", "amber", "3 3")}[kind]
    p.rect(x, y, 40, 26, fill, stroke, 13, dash)
    p.text(x + 20, y + 17, f"{key}{number}", size=12, mono=True, bold=True)


def parking():
    """Four moments of key a, whose first event fails, and of b and c beside it."""
    p = Picture("A failed event is parked with the later events of its key; other keys go on", 400)
    columns = {"stream": 158, "sink": 300, "parked": 408, "done": 560}
    for name, x in zip(("the log brings", "at the sink", "courier.parked", "delivered"), columns.values()):
        p.text(x, 32, name, size=12, colour="soft", anchor="start", bold=True, mono=name == "courier.parked")
    moments = [
        (["a1 fails", ""], [("stream", "b2 a3 c4", "plain"), ("sink", "a1", "failed")]),
        (["a1 is parked;", "a3 waits behind it"],
         [("stream", "a5", "plain"), ("sink", "c4", "at"), ("parked", "a1", "retry"), ("parked", "a3", "blocked"),
          ("done", "b2", "done")]),
        (["a1 is due,", "and tried again"],
         [("sink", "a1", "at"), ("parked", "a1", "retry"), ("parked", "a3 a5", "blocked"), ("done", "b2 c4", "done")]),
        (["a3 and a5 follow,", "in order"],
         [("sink", "a3", "at"), ("parked", "a3 a5", "blocked"), ("done", "b2 c4 a1", "done")]),
    ]
    for i, (title, chips) in enumerate(moments):
        y = 50 + 74 * i
        p.rect(16, y, 688, 62, "paper", "frame")
        p.text(30, y + (36 if not title[1] else 27), title[0], size=12.5, anchor="start", bold=True)
        p.text(30, y + 46, title[1], size=12, anchor="start", colour="soft")
        used = {}
        for column, names, kind in chips:
            for name in names.split():
                n = used.get(column, 0)
                chip(p, columns[column] + 43 * n, y + 18, name[0], name[1:], kind)
                used[column] = n + 1
    legend = [("retry", "waits for its time"), ("blocked", "waits behind its key"), ("at", "an attempt is under way")]
    x = 30
    for kind, what in legend:
        chip(p, x, 356, "", "", kind)
        p.text(x + 48, 373, what, size=12, colour="soft", anchor="start")
        x += 215
    return p


PICTURES = {"event": event, "difference": difference, "doorbell": doorbell, "parking": parking}
