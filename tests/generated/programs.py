"""Runs random programs in front of the loopback NCCL and says what went wrong, by class of program.

    programs.py BUILD [--programs N] [--kind c|python|optimised|alike|no_arguments|cpp|ways|training|one_line|passes] [--first SEED] [--jobs N] [--shrink N] [--seed SEED]

--seed: that one program: its source and what its ranks did. --list: a line for each program that went wrong.
Status 1 if anything did that expected.py does not allow.
"""

import argparse
import collections
import multiprocessing
import os
import random
import shutil
import sys
import time

import alike
import batch
import c_source
import classes
import cpp
import loops
import expected
import no_arguments
import optimised
import passes
import python_source
import scripts
import shapes
import shrink
import trainings
import verdict
import ways

COLUMNS = verdict.FAULTS
TITLES = {"hang": "hang", "crash": "crash", "mismatch": "misma", "error": "error", "garbage": "garb", "wrong": "wrong",
          "silent": "silent", "deviates": "deviat", "unmet": "unmet", "other_epoch": "epoch", "split": "split", "as_alone": "alone",
          "warned": "warned"}

# Kinds of their own, a quarter of which is in Python.
KINDS = {**trainings.KINDS, "passes": passes.CLASSES}
# ... in which the compiler is the point.
OF_COMPILERS = {"optimised": optimised, "alike": alike, "no_arguments": no_arguments, "cpp": cpp, "ways": ways}


def make(kind, seed):
    spec = made(kind, seed)
    loops.draw(spec)
    return spec


def made(kind, seed):
    if kind in OF_COMPILERS:
        of = OF_COMPILERS[kind]
        spec = shapes.make(kind, seed, of.CLASSES, lambda name: of.FORMS)
        spec["compiler"] = of.compiler(random.Random(f"compiler {seed}"))
        return spec
    if kind in KINDS:
        made_by = KINDS[kind]
        language = trainings.language(seed, len(made_by))
        spec = shapes.make(language, seed, made_by,
                           lambda name: trainings.PYTHON_FORMS if language == "python" else trainings.FORMS)
        if language == "c":
            spec["compiler"] = trainings.compiler(random.Random(f"compiler {seed}"))
        return spec
    forms = c_source.FORMS if kind == "c" else python_source.FORMS
    of_scripts = scripts.C_SCRIPT_FORMS if kind == "c" else scripts.PYTHON_SCRIPT_FORMS
    spec = shapes.make(kind, seed, classes.CLASSES, lambda name: of_scripts if name in scripts.SCRIPTS else forms)
    if kind == "c":
        spec["compiler"] = batch.compilers(random.Random(f"compiler {seed}"), spec)
        # Returns behind each call if it has failed, which the compiler cannot know that none has.
        spec["checked"] = not spec["script"] and spec["form"] != "coroutine" and random.Random(f"checked {seed}").random() < 0.3
    return spec


def kind_of(spec):
    """What --kind makes it by, with its seed."""
    return next((kind for kind, made_by in KINDS.items() if spec["class"] in made_by), spec["kind"])


def work(job):
    place, name, specs = job
    try:
        found, _ = batch.judge_all(place, name, specs)
        return specs, found, None
    except (RuntimeError, KeyError, OSError) as error:
        return specs, None, f"{name}: {error}"


class Report:
    """Counts of programs by row."""

    def __init__(self, today):
        self.today = today
        self.rows = collections.OrderedDict()
        self.bad, self.wrong = [], []
        self.failures = []

    def add(self, spec, found):
        where = "hidden" if expected.is_hidden(spec) else "seen"
        data = "empty first" if spec["empty_first"] else "data in 1st"
        alike = "units alike" if spec["collides"] else "none alike"
        group = "even" if spec["even"] else f"{where}, {data}, {alike}"
        for title in (("class", spec["class"]), ("form", f"{spec['kind']} {spec['form']}"), ("all", group), ("all", "all")):
            row = self.rows.setdefault(title, collections.Counter())
            row["programs"] += 1
            row.update(set(found))
        if "compiler" in spec and kind_of(spec) in (*KINDS, *OF_COMPILERS):
            row = self.rows.setdefault(("compiler", f"{' '.join(spec['compiler'])}, {'even' if spec['even'] else 'uneven'}"),
                                       collections.Counter())
            row["programs"] += 1
            row.update(set(found))
        bad = expected.unexpected(spec, found, self.today)
        if bad:
            self.bad.append((spec, bad))
        if bad or "wrong" in found or expected.is_grave(found):
            self.wrong.append((spec, list(found)))

    def print(self, sections=("class", "form", "compiler", "all")):
        for section in sections:
            print(f"\n{section + ': programs with':44}" + "".join(f"{TITLES[fault]:>7}" for fault in COLUMNS))
            rows = [(name, row) for (of, name), row in self.rows.items() if of == section]
            order = {name: at for at, name in enumerate(classes.CLASSES)}
            for name, row in sorted(rows, key=lambda item: (order.get(item[0].split(",")[0], 99), item[0])):
                print(f"{name:36}{row['programs']:>8}" + "".join(f"{row[fault] or '.':>7}" for fault in COLUMNS))


def run_all(place, specs, jobs, report):
    groups = batch.group(specs)
    named = [(place, f"{group[0]['kind']}_{at}", group) for at, group in enumerate(groups)]
    with multiprocessing.Pool(jobs) as pool:
        for specs_done, found, failure in pool.imap_unordered(work, named):
            if failure:
                report.failures.append(failure)
                continue
            for spec, faults in zip(specs_done, found):
                report.add(spec, faults)


def source_of(spec):
    if spec["kind"] == "python":
        return python_source.Source(spec, 0).text()
    return c_source.text(spec, 0)


def show(place, spec, fault):
    """Prints a program that goes wrong, made smaller."""
    print(f"\n== {kind_of(spec)} seed {spec['seed']} ({spec['class']}, {spec['form']}): {fault}")
    made = shrink.shrink(place, spec, fault)
    if made is None:
        print(f"   not seen again in {shrink.TRIES} runs")
        return
    small, result = made
    print(source_of(small))
    print("\n".join(f"rank {number}, status {rank.status}: {rank.text.decode(errors='replace').strip()[:600]}"
                    for number, rank in enumerate(result.ranks) if rank.text or rank.status))
    print(verdict.schedule(small, result))


def show_seed(place, spec):
    print(source_of(spec))
    found, results = batch.judge_all(place, f"seed_{spec['kind']}", [spec])
    result = results[0]
    for number, rank in enumerate(result.ranks):
        print(f"rank {number}: status {rank.status}, {len(rank.calls)} calls\n{rank.text.decode(errors='replace')}", end="")
    print(verdict.schedule(spec, result))
    print(found[0] or "nothing wrong")


def options_of(arguments):
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--kind", choices=("c", "python", *KINDS, *OF_COMPILERS))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--shrink", type=int, default=5, help="how many programs that go wrong are made smaller")
    parser.add_argument("--limit", type=float, default=25, help="seconds without a call until a program hangs")
    parser.add_argument("--class", dest="only", help="only these classes, with commas between; scripts: those of scripts.py")
    parser.add_argument("--asserted", action="store_true", help="not the classes of which nothing is asserted")
    parser.add_argument("--today", action="store_true", help="expect what holds today, not what shall")
    parser.add_argument("--list", action="store_true", help="name every program that went wrong, as it may or not")
    parser.add_argument("--machines", type=int, default=1, help="the ranks are spread over so many: each has a /dev/shm of its own")
    parser.add_argument("--no-join", action="store_true")
    return parser.parse_args(arguments)


def main():
    options = options_of(sys.argv[1:])
    folder = os.path.join(os.path.abspath(options.build), "generated", f"run{os.getpid()}")
    place = batch.Place(options.build, folder, options.limit, not options.no_join, machines=options.machines)
    kinds = [options.kind] if options.kind else ["c", "python"]
    os.makedirs(folder)
    try:
        return check(place, kinds, options)
    finally:
        shutil.rmtree(folder)


def check(place, kinds, options):
    if options.seed is not None:
        for kind in kinds:
            show_seed(place, make(kind, options.seed))
        return 0
    report, began = Report(options.today), time.monotonic()
    for kind in kinds:
        seeds = range(options.first, options.first + options.programs)
        specs = [make(kind, seed) for seed in seeds]
        only = list(scripts.SCRIPTS) if options.only == "scripts" else (options.only or "").split(",")
        specs = [spec for spec in specs if not options.only or spec["class"] in only]
        specs = [spec for spec in specs if not options.asserted or expected.is_asserted(spec["class"])]
        run_all(place, specs, options.jobs, report)
    report.print()
    print(f"\n{sum(row['programs'] for (of, name), row in report.rows.items() if (of, name) == ('all', 'all'))} programs in "
          f"{time.monotonic() - began:.0f} s, {len(report.bad)} with what expected.py does not allow")
    for failure in report.failures:
        print(f"could not be run: {failure}")
    for bad in (report.bad, report.wrong):
        bad.sort(key=lambda one: verdict.FAULTS.index(one[1][0]))
    for spec, faults in report.wrong if options.list else report.bad:
        if options.list or expected.is_grave(faults):
            print(f"{kind_of(spec)} {spec['seed']} {spec['class']} {spec['form']}: {' '.join(faults)}")
    shown = set()
    for spec, faults in report.bad:
        key = spec["class"], faults[0]
        if len(shown) < options.shrink and key not in shown:
            shown.add(key)
            show(place, spec, faults[0])
    return 1 if report.bad or report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
