#!/usr/bin/env python3
"""Chooses the program tests whose ranks have sanitizers in `make check`, and prints their names.

    tests/join/choose.py BUILD [TEST...]

Each test is run alone with the programs of BUILD (COVERAGE=1), and gcov says which ways control took in core/, hooks/ and
interpose/. Then one test after the other is chosen: the one that takes most ways that none before it has taken, for the
processor time that it needs; until all but one in 1,000 of those that any test takes are taken. TEST: these are run anyway,
and not printed. Ranks that are killed have not written, or not in whole, what they have done.
"""

import glob
import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import tempfile

LEFT_OUT = 0.001
START_S = 0.02  # of processor time, for any test
FOLDERS = ("core/", "hooks/", "interpose/")


def ways_of(folder, build):
    """The ways that processes took which have written to this folder: branches, and lines."""
    for path in glob.glob(f"{folder}/**/*.gcda", recursive=True):
        notes = path[:-len("gcda")] + "gcno"
        os.symlink(notes[notes.index(build):], notes)
    files = [path for path in glob.glob(f"{folder}/**/*.gcda", recursive=True)
             if path[path.index(build) + len(build) + 1:].startswith(FOLDERS)]
    if not files:
        return set()
    ways = set()
    text = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", *files], cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
    for line in text.splitlines():
        for file in json.loads(line)["files"] if line.startswith("{") else ():
            for at in file["lines"]:
                if at["count"] > 0:
                    ways.add((file["file"], at["line_number"]))
                ways.update((file["file"], at["line_number"], number)
                            for number, branch in enumerate(at["branches"]) if branch["count"] > 0)
    return ways


def run(job):
    """Whether a test has passed, and was not skipped; the ways that it takes; and its processor time in seconds."""
    build, test = job
    folder = tempfile.mkdtemp()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(["build/check/join", "-j1", "--filter", test], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         env=dict(os.environ, JOIN_TEST_BUILD=os.path.basename(build), GCOV_PREFIX=folder), check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    passed = "Tested: 1 | Passing: 1" in ran.stdout
    ways = ways_of(folder, build) if passed else set()
    shutil.rmtree(folder)
    return test, passed, ways, START_S + after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    build, anyway = os.path.abspath(sys.argv[1]), sys.argv[2:]
    tests = subprocess.run(["build/check/join", "--list"], text=True, stdout=subprocess.PIPE, check=True).stdout.split()
    with multiprocessing.Pool() as pool:
        ran = {test: (ways, cost) for test, passed, ways, cost in pool.imap_unordered(run, [(build, test) for test in tests])
               if passed}
    every = set().union(*(ways for ways, _ in ran.values()))
    left = every - set().union(*(ran.pop(test)[0] for test in anyway if test in ran))
    chosen = []
    while len(left) > LEFT_OUT * len(every):
        best = max(ran, key=lambda test: len(ran[test][0] & left) / ran[test][1])
        chosen.append(best)
        left -= ran.pop(best)[0]
    print("\n".join(sorted(chosen)))
    print(f"{len(chosen)} of {len(tests)} tests; {len(left)} of {len(every)} ways are left out", file=sys.stderr)


if __name__ == "__main__":
    main()
