"""Follows a tutorial: runs its commands, compares their output (scripts/check-tutorials).

tutorial.py PAGE POSTGRESQL_BIN [--write]

Blocks of the language sh are commands. Blocks of the language console are commands after "$ ", each
with its output. All run in one shell. A command that shows something is repeated until the output is
as on the page, for it may be ahead of the relay; a reader is slower. --write puts output that differs
into PAGE.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

from ports import free_ports  # scripts/lib

BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```$", re.S | re.M)
COMMAND = re.compile(r"^\$ (.*(?:\n> .*)*)\n?", re.M)
PATIENCE_S = 30
# What differs from one run to the next, and what stands for it in the comparison.
VARIES = [
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
    (r"whsec_[A-Za-z0-9+/=]+", "SECRET"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+\d\d(:\d\d)?)?", "TIME"),
    (r"\d\d:\d\d:\d\d(\.\d+)?", "TIME"),
    (r"\b\d{13}-\d+", "STREAM-ID"),
    (r"~?\b\d+(\.\d+)? ?(ms|s|m)\b", "SPAN"),
    (r"\b\d+(\.\d+)?/s", "RATE"),
    (r"\btransaction \d+", "transaction N"),
    (r"\bversion \d+\.\d+", "version N"),
    (r"^ *\d+ (?=(mail|webhooks) )", "ID "),
    (r"[\w.-]+/\d+, since", "HOST/PID, since"),
    (r"-{3,}", "---"),
    (r"[ \t]+", " "),
]
# These only look, so they may be asked again.
LOOKS = re.compile(r"cat |grep |tail |redis-cli -s \S+ (XRANGE|XLEN) |psql -qAt (\S+ \S+ )?\S+ -c [\"']SELECT"
                   r"|pgcourier (status|trace|schedule show|(dead|parked|receiver|schedule) list) ")


def plain(text):
    for pattern, word in VARIES:
        text = re.sub(pattern, word, text, flags=re.M)
    lines = [line.strip() for line in text.strip().split("\n")]
    if lines[0].startswith("published: "): # sinks work at the same time, and not each attempt is seen
        lines = sorted(line for line in lines if ": attempt " not in line)
    return "\n".join(lines)


class Shell:
    """One bash for the whole page, in a session of its own."""

    def __init__(self, bin_folder, home):
        os.makedirs(home, exist_ok=True)
        self.home = home
        path = f"{os.getcwd()}/bin:{bin_folder}:{os.environ['PATH']}"
        environment = {"HOME": home, "PATH": path, "LC_ALL": "C.UTF-8", "TZ": "UTC", "COLUMNS": "100"}
        self.bash = subprocess.Popen(["bash", "--noprofile", "--norc"], cwd=home, env=environment,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.count = 0

    def run(self, command):
        """Its output and exit code."""
        self.count += 1
        with tempfile.NamedTemporaryFile("w", suffix=".sh", dir=os.getcwd(), delete=False) as file:
            file.write(command + "\n")
        out = file.name + ".out"
        self.bash.stdin.write(f". {file.name} </dev/null >{out} 2>&1; echo end-{self.count} $?\n")
        self.bash.stdin.flush()
        for line in self.bash.stdout:
            if line.startswith(f"end-{self.count} "):
                with open(out, encoding="utf-8") as said:
                    return said.read(), int(line.split()[1])
        sys.exit(f"the shell ended at: {command}")

    def close(self):
        """Ends all that the page has started."""
        for root, _, files in os.walk(self.home):
            if "postmaster.pid" in files:
                with open(f"{root}/postmaster.pid", encoding="ascii") as file:
                    pid = int(file.readline())
                try:
                    os.kill(pid, signal.SIGQUIT)
                except ProcessLookupError:
                    pass
        os.killpg(self.bash.pid, signal.SIGTERM)
        time.sleep(0.1)
        os.killpg(self.bash.pid, signal.SIGKILL)
        self.bash.wait()


class Page:
    def __init__(self, path, shell, write):
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.shell = shell
        self.write = write
        # The page's ports may be taken here.
        ports = sorted(set(re.findall(r"\b(?:808\d|5490|6390|8480)\b", self.text)))
        self.ports = dict(zip(ports, map(str, free_ports(len(ports)))))

    def here(self, text):
        for port, free in self.ports.items():
            text = re.sub(rf"\b{port}\b", free, text)
        return text

    def there(self, text):
        for port, free in self.ports.items():
            text = text.replace(free, port)
        return text.replace(self.shell.home, "/home/ann").replace(f" {socket.gethostname()}/", " web1/")

    def follow(self):
        return BLOCK.sub(self.follow_block, self.text)

    def follow_block(self, block):
        language, text = block.groups()
        if language == "sh":
            said, code = self.shell.run(self.here(text))
            if code != 0 or said.strip():
                self.fail(text, "" if code == 0 else "exit code 0", f"{said}exit code {code}")
            return block[0]
        commands = list(COMMAND.finditer(text))
        ends = [match.start() for match in commands[1:]] + [len(text)]
        parts = []
        for match, end in zip(commands, ends):
            expected = text[match.end():end]
            command = match[1].replace("\n> ", "\n")
            said = self.obey(command, expected)
            changed = plain(self.there(said)) != plain(expected)
            parts.append(match[0] + (self.there(said) if changed else expected))
        return "```console\n" + "".join(parts) + "```"

    def obey(self, command, expected):
        here = self.here(command)
        looks = LOOKS.match(command) is not None
        said, _ = self.shell.run(here)
        deadline = time.monotonic() + (3 if self.write else PATIENCE_S)
        while looks and time.monotonic() < deadline and plain(self.there(said)) != plain(expected):
            time.sleep(0.1)
            said, _ = self.shell.run(here)
        if not self.write and plain(self.there(said)) != plain(expected):
            self.fail(command, expected, self.there(said))
        return "".join(line.rstrip() + "\n" for line in said.rstrip().split("\n")) if said else ""

    def fail(self, command, expected, said):
        print(f"$ {command}\n--- the page shows\n{expected}\n--- it printed\n{said}", flush=True)
        print(self.shell.run("tail -n 5 *.log */*.log $WORK/*.log")[0], flush=True)
        sys.exit(1)


def main():
    path, bin_folder = sys.argv[1:3]
    home = f"{os.getcwd()}/tutorial"
    shell = Shell(bin_folder, home)
    write = "--write" in sys.argv
    try:
        text = Page(path, shell, write).follow()
    finally:
        shell.close()
        subprocess.run(["rm", "-rf", home], check=True)
    if write:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


main()
