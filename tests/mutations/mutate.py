"""Breaks one rule after the other in a copy of the sources, and shows which test notices.

The lists beside this file hold the mutations:

    == what goes wrong, in words
    -- file
    text, which occurs once
    ++
    text in its place
    -- tests            only if neither the simulator nor the core's unit tests can know
    test program ...    of tests/integration or tests/unit; or program:pattern, for some of its tests

A run renews the rows of what it tried in the table of README.md. The names of mutations in the
folder sinks begin with the number of one of the fifteen bugs listed in tests/integration/README.md,
or with the name of their list.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNIT_TESTS = ["key_order", "window", "retry", "breaker", "lane", "lane_attempts", "lane_blame",
              "lane_giving_up", "lane_ownership", "lane_parking", "lane_regressions", "lane_suspicion", "rate", "receiver_health", "bell",
              "placement", "turns"]
HEADER = ["| mutation | the simulator says | tests that fail |", "|---|---|---|"]
BEGIN, END = "<!-- written by scripts/mutate -->\n", "<!-- end -->"
SIMULATORS = ["simulator", "page_cache_simulator", "bell_simulator", "members_simulator"]


class Mutation:
    def __init__(self, text):
        self.name, rest = text.split("\n-- ", 1)
        rest, _, tests = rest.partition("\n-- tests\n")
        self.file, rest = rest.split("\n", 1)
        self.old, _, self.new = rest.partition("\n++")
        self.new = self.new.strip("\n")
        self.tests = tests.split()


def read_mutations(folder, words=(), lists=()):
    mutations = []
    for path in sorted(folder.glob("*.txt")):
        if lists and path.stem not in lists:
            continue
        for text in ("\n" + path.read_text()).split("\n== ")[1:]:
            mutations.append(Mutation(text))
    return [m for m in mutations if not words or any(word in m.name for word in words)]


def run(*command, seconds=300):
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "it does not end")


def find_test(folder, test):
    """The program, and what it is to run: a file of tests/unit is a part of its folder's program."""
    name, _, pattern = test.partition(":")
    for path in (ROOT / "tests/unit").rglob(f"{name}.c"):
        program = f"test_{path.relative_to(ROOT / 'tests/unit').parts[0]}"
        suites = set(re.findall(r"^(?:Parameterized)?Test\((?:[^,]*\*\w+, )?(\w+),", path.read_text(), re.M))
        return folder / "build/tests/unit" / program, pattern or f"@({'|'.join(suites)})/*"
    return folder / "build/tests/integration" / name, pattern


def build(folder, targets):
    done = run("ninja", "-C", folder / "build", *targets, seconds=1800)
    if done.returncode != 0:
        print(f"{done.stdout[-3000:]}\ndoes not compile")
    return done.returncode == 0


def copy_sources(folder):
    listed = run("git", "-C", ROOT, "ls-files", "-co", "--exclude-standard").stdout.split("\n")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    if (ROOT / ".cache").is_dir():  # what is downloaded for tests
        (folder / ".cache").symlink_to(ROOT / ".cache")


def check_texts(mutations):
    """Before the first one is tried: some hours may lie between it and the last."""
    stale = [(m, (ROOT / m.file).read_text().count(m.old)) for m in mutations]
    for mutation, n in stale:
        if n != 1:
            print(f"'{mutation.name}': its text occurs {n} times in {mutation.file}; renew it")
    if any(n != 1 for _, n in stale):
        sys.exit(1)


def by_simulator(folder, mutation, options):
    if pathlib.Path(mutation.file).name.startswith("page_"):
        done = run(folder / "build/tests/simulator/page_cache_simulator", str(options.histories),
                   seconds=60)
    elif pathlib.Path(mutation.file).name == "bell.c":
        done = run(folder / "build/tests/simulator/bell_simulator", str(options.histories // 5))
    elif pathlib.Path(mutation.file).parent.name == "members":
        done = run(folder / "build/tests/simulator/members_simulator", str(options.histories // 50))
    else:
        done = run(folder / "build/tests/simulator/simulator", "--histories",
                   str(options.histories), "--jobs", "2")
    if done.returncode == 0:
        return None
    if done.returncode == 124:
        return "it does not end"
    for line in done.stdout.splitlines():
        if line.startswith("seed "):
            parts = line.split(": ")
            return parts[1].split(" (")[0] if len(parts) > 1 else line
    return "it fails"


def by_tests(tests):
    noticed = []
    for program, pattern in tests:
        done = run(program, "--jobs", "2", *(["--filter", pattern] if pattern else []))
        noticed += [line.split("] ")[1].split(": ")[0] # the rest tells how: by a crash, after how long
                    for line in done.stdout.splitlines() if line.startswith("[FAIL] ")]
        if done.returncode != 0 and not noticed:
            noticed.append(program.name)
    return noticed


def try_one(folder, mutation, options):
    path = folder / mutation.file
    original = path.read_text()
    path.write_text(original.replace(mutation.old, mutation.new))
    named = mutation.tests or [f"test_{name}" for name in UNIT_TESTS]
    tests = [find_test(folder, test) for test in named]
    promise, noticed = None, []
    if not mutation.tests and build(folder, SIMULATORS):
        promise = by_simulator(folder, mutation, options)
    programs = ["pgcourier"] if mutation.tests else []
    programs += sorted({program.name for program, _ in tests})
    if (options.both or promise is None) and build(folder, programs):
        noticed = by_tests(tests)
    path.write_text(original)
    return promise, noticed


def write_table(rows):
    """What has been shown, for people: between two marks of README.md, in the order of the lists. Rows
    of what was not tried stay as they are."""
    path = pathlib.Path(__file__).parent / "README.md"
    before, _, rest = path.read_text().partition(BEGIN)
    told, _, after = rest.partition(END)
    known = {row.split(" | ")[0]: row for row in [*told.split("\n"), *rows]}
    rows = [known[head] for m in read_mutations(path.parent) if (head := f"| {m.name}") in known]
    n_survived = sum(row.endswith("| – | – |") for row in rows)
    told = "none survives" if n_survived == 0 else f"{n_survived} survive"
    path.write_text("\n".join([before + BEGIN, f"{len(rows)} mutations, {told}:", "", *HEADER, *rows, END]) + after)


def main():
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__.split("\n")[0])
    parser.add_argument("--histories", type=int, default=20000, help="for each mutation")
    parser.add_argument("--both", action="store_true",
                        help="run the unit tests also on what the simulator has caught")
    parser.add_argument("--sinks", action="store_true", help="the defences of the sinks instead")
    parser.add_argument("--list", action="append", default=[], metavar="NAME",
                        help="only those of NAME.txt; may be repeated")
    parser.add_argument("words", nargs="*", help="only mutations whose names have one of these")
    options = parser.parse_args()
    lists = pathlib.Path(__file__).parent / ("sinks" if options.sinks else "")
    mutations = read_mutations(lists, options.words, options.list)
    n_survived = 0
    check_texts(mutations)

    with tempfile.TemporaryDirectory(prefix="pgcourier-mutations-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        copy_sources(folder)
        run("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja",
            "-DCMAKE_BUILD_TYPE=Debug", "-DPGCOURIER_WERROR=OFF", "-DPGCOURIER_CRASH_POINTS=ON")
        first = ["pgcourier"]
        if not all(mutation.tests for mutation in mutations):
            first += SIMULATORS + sorted({find_test(folder, f"test_{name}")[0].name for name in UNIT_TESTS})
        if not build(folder, first):
            sys.exit(1)
        os.environ["PGCOURIER"] = str(folder / "build/pgcourier")
        os.environ["PGCOURIER_NEXT"] = str(folder / "build/tests/integration/pgcourier_next")
        print(*HEADER, sep="\n", flush=True)
        rows = []
        for mutation in mutations:
            promise, noticed = try_one(folder, mutation, options)
            others = f" and {len(noticed) - 1} more" if len(noticed) > 1 else ""
            rows.append(f"| {mutation.name} | {promise or '–'} | "
                        f"{'`' + noticed[0] + '`' + others if noticed else '–'} |")
            print(rows[-1], flush=True)
            n_survived += promise is None and not noticed
    if not options.sinks:
        write_table(rows)
    print(f"\n{len(mutations)} mutations, {n_survived} survived")
    sys.exit(n_survived > 0)


if __name__ == "__main__":
    main()
