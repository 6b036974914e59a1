"""What the demo and the benchmark share: the relay's log as times, and percentiles."""

import math
import re
from datetime import datetime, timezone

FIELD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)')


def log_lines(log_path, event):
    """The fields of the log's lines of one kind of event; `us` is the wall time of the line."""
    with open(log_path, encoding="utf-8", errors="replace") as log:
        for line in log:
            if f" event={event} " not in line or not line.endswith("\n"):
                continue
            fields = dict(FIELD.findall(line))
            at = datetime.strptime(fields["ts"], "%Y-%m-%dT%H:%M:%S.%fZ")
            at = at.replace(tzinfo=timezone.utc)
            fields["us"] = round(at.timestamp() * 1_000_000)
            yield fields


def acknowledged_us(log_path):
    """(sink, event id) -> when the relay got the acknowledgement, from its debug log."""
    times = {}
    for fields in log_lines(log_path, "delivered"):
        times.setdefault((fields["sink"].strip('"'), fields["event_id"]), fields["us"])
    return times


def percentile(values, percent):
    """The smallest value that `percent` of all do not exceed."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]
