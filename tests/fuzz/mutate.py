"""Takes one check after the other out of a copy of the sources, and shows that scripts/fuzz notices.

The list is mutations.txt, written as those of tests/mutations; under "-- tests" stand the fuzz targets
that have to notice.
"""
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/mutations"))
from mutate import Mutation, copy_sources, run  # noqa: E402

SAID = re.compile(r"broken promise: (.*)|(?:SUMMARY|ERROR): \w+: ([\w-]+)")


def read_mutations(words):
    text = "\n" + (pathlib.Path(__file__).parent / "mutations.txt").read_text()
    mutations = [Mutation(part) for part in text.split("\n== ")[1:]]
    return [m for m in mutations if not words or any(word in m.name for word in words)]


def notice(folder, target):
    """What the target says; None: nothing."""
    built = run("cmake", "--build", folder / "build-fuzz", "--target", f"fuzz_{target}")
    if built.returncode != 0:
        sys.exit(f"{built.stdout[-3000:]}\ndoes not compile")
    done = run(folder / "scripts/fuzz", "--shortly", target)
    said = SAID.search(done.stdout)
    if done.returncode == 0:
        return None
    return f"{target}: {said[1] or said[2] if said else done.stdout[-300:]}"


def try_one(folder, mutation):
    path = folder / mutation.file
    original = path.read_text()
    if original.count(mutation.old) != 1:
        sys.exit(f"'{mutation.name}': its text occurs {original.count(mutation.old)} times in "
                 f"{mutation.file}; renew it")
    path.write_text(original.replace(mutation.old, mutation.new))
    said = [notice(folder, target) for target in mutation.tests]
    path.write_text(original)
    return said


def main():
    mutations = read_mutations(sys.argv[1:])
    n_survived = 0

    with tempfile.TemporaryDirectory(prefix="pgcourier-mutations-") as name:
        folder = pathlib.Path(name)
        copy_sources(folder)
        if run("cmake", "--preset", "fuzz", "-S", folder).returncode != 0:
            sys.exit("cmake fails")
        print("| mutation | what the targets say |\n|---|---|", flush=True)
        for mutation in mutations:
            said = try_one(folder, mutation)
            print(f"| {mutation.name} | {'; '.join(text or '–' for text in said)} |", flush=True)
            n_survived += None in said
    print(f"\n{len(mutations)} mutations, {n_survived} survived")
    sys.exit(n_survived > 0)


if __name__ == "__main__":
    main()
