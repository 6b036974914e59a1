"""What the benchmark is at: one line that is rewritten on a terminal, plain lines elsewhere."""

import os
import sys
import time

where = ""
began = time.monotonic()
on_terminal = sys.stdout.isatty()


def begin(text):
    """What the next lines belong to: the cell, and how many there are."""
    global where, began
    where, began = text, time.monotonic()
    progress("")


def progress(text):
    seconds = int(time.monotonic() - began)
    line = f"{where} {seconds // 60}:{seconds % 60:02}  {text.strip()}".rstrip()
    if not on_terminal:
        print(line, flush=True)
        return
    columns = os.get_terminal_size(sys.stdout.fileno()).columns
    print("\r\x1b[K" + line[:columns - 1], end="", flush=True)


def clear():
    """Before anything else is printed."""
    if on_terminal:
        print("\r\x1b[K", end="", flush=True)
