"""Training scripts made at random (random_source.py), with and without nccl-join: who met in each collective, and whether they should have.

PYTORCH_PROGRAMS (40) of them, from seed PYTORCH_SEED (1) on, by all backends that were asked for. One that goes wrong is made smaller, and printed.

    hang, error          no end; a rank failed
    garbage              a result that no contributions could make
    wrong, silent        contributions of different points of the script met; with no WARN before
    deviates, warned     of an even script: not all ranks met in their collectives, or not as without nccl-join; a WARN
    epochs, split        the same point in different epochs; calls of a point and epoch took more collectives than iterations have of it
    apart                split, with no WARN at all, and all ranks come together between epochs (docs/limits.md)
"""

import collections
import copy
import os
import re

import random_source
from cases import Case, Failure, backends
from stack import BUILD, HERE, Result

FOLDER = BUILD / "pytorch/random"
STEPS_MAX = 40  # of making one smaller
LIMIT_S = 150
NEVER = ("hang", "error", "garbage", "silent", "apart", "deviates")

Call = collections.namedtuple("Call", "rank serial point epoch iteration seen line")
LINE = re.compile(r"^MET ((?:\d+ ?)+)$|NCCL-JOIN (?:WARN|ERROR) ", re.MULTILINE)


def read(output, ranks):
    """The calls in an output, and where its first WARN is."""
    calls, warned = [], None
    for found in LINE.finditer(output):
        if found[1] is None:
            warned = found.start() if warned is None else warned
            continue
        rank, serial, point, epoch, iteration, *seen = map(int, found[1].split())
        if len(seen) == ranks:
            calls.append(Call(rank, serial, point, epoch, iteration, seen, found.start()))
    return calls, warned


def meetings(calls):
    """Sets of (rank, serial) that have met, and how many results are of no such set. One result may show only some."""
    of = {(call.rank, call.serial): call for call in calls}
    parent = {key: key for key in of}

    def top(key):
        while parent[key] != key:
            key = parent[key]
        return key

    garbage = 0
    for call in calls:
        for rank, serial in enumerate(call.seen):
            if serial and (rank, serial) not in of:
                garbage += 1
            elif serial:
                parent[top((rank, serial))] = top((call.rank, call.serial))
    groups = collections.defaultdict(list)
    for key in of:
        groups[top(key)].append(of[key])
    return list(groups.values()), garbage


def count_split(spec, met):
    """Collectives that calls of a point and epoch took beyond those of the rank with most of them, iteration for iteration."""
    took, calls, least = collections.Counter(), collections.Counter(), collections.Counter()
    for group in met:
        for key in {(call.point, call.epoch if random_source.has_ends(spec) else 0) for call in group}:
            took[key] += 1
        for call in group:
            calls[call.rank, call.point, call.epoch, call.iteration] += 1
    for point, epoch, iteration in {key[1:] for key in calls}:
        most = max(calls[rank, point, epoch, iteration] for rank in range(spec["ranks"]))
        least[point, epoch if random_source.has_ends(spec) else 0] += most
    return sum(max(0, took[key] - least[key]) for key in took)


def judge(spec, result, reference=None):
    """Faults, and how many of each."""
    found = collections.Counter()
    calls, warned = read(result.output, spec["ranks"])
    met, garbage = meetings(calls)
    if result.stuck:
        found["hang"] = 1
    elif result.status != 0 or result.output.count("\nEND ") + result.output.startswith("END ") != spec["ranks"]:
        found["error"] = 1
    if not found:
        found["garbage"] = garbage
        found["split"] = count_split(spec, met)
        found["apart"] = int(found["split"] > 0 and warned is None and random_source.has_ends(spec))
    wrong = [group for group in met if len({call.point for call in group}) > 1]
    found["wrong"] = len(wrong)
    if wrong and (warned is None or warned > min(call.line for group in wrong for call in group)):
        found["silent"] = 1
    found["epochs"] = sum(len({call.epoch for call in group}) > 1 for group in met if group not in wrong)
    if random_source.is_even(spec):
        found["warned"] = int(warned is not None)
        found["deviates"] = sum(len(group) != spec["ranks"] or len({call[2:5] for call in group}) != 1 for group in met)
        if reference is not None:
            ours, theirs = (sorted(call[:6] for call in some) for some in (calls, read(reference.output, spec["ranks"])[0]))
            found["deviates"] += ours != theirs
    return +found


def run(stack, spec, environment, name):
    """Writes the script of a spec and runs it; what is wrong, and its run with nccl-join."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}-{os.getpid()}.py"
    path.write_text(random_source.source(spec), encoding="utf-8")
    more = {**environment, "RANDOM_RANK": str(HERE), "NCCL_JOIN_REPORT": "off", "NCCL_JOIN_SKEW_WARN": "0", "NCCL_JOIN_TIMEOUT": "60",
            "HOSTCUDA_ASYNC": str(int(spec["asynchronous"]))}
    try:
        result = stack.with_join.run([path], spec["ranks"], more, LIMIT_S)
        reference = stack.without.run([path], spec["ranks"], more, LIMIT_S) if random_source.is_even(spec) else None
    finally:
        path.unlink()
    return judge(spec, result, reference), result


def smaller(spec):
    """Specs with one thing less."""
    for name in random_source.FEATURES:
        if spec[name] is not None:
            yield {**spec, name: None}
    for name, value in (("asynchronous", False), ("helper", False), ("parts", "in place"), ("loop", "range"), ("sync", "call"), ("destroy", True),
                        ("handles", False)):
        if spec[name] != value:
            yield {**spec, name: value}
    for name in ("start", "after"):
        for at in range(len(spec[name])):
            yield {**spec, name: spec[name][:at] + spec[name][at + 1:]}
    for at, one in enumerate(spec["models"]):
        if len(spec["models"]) > 1:
            yield {**spec, "models": spec["models"][:at] + spec["models"][at + 1:]}
        plain = {**one, "options": {}, "buffers": False, "hook": False}
        less = [plain] if plain != one else []
        less += [{**one, "sizes": one["sizes"][:-1]}] if len(one["sizes"]) > 1 else []
        for made in less:
            yield {**spec, "models": spec["models"][:at] + [made] + spec["models"][at + 1:]}
    if spec["epochs"] > 1:
        yield {**spec, "epochs": spec["epochs"] - 1}
    fewer = copy.deepcopy(spec)
    for table in [fewer["iterations"]] + ([fewer["validate"]["counts"]] if fewer["validate"] else []):
        for row in table:
            row[:] = [(count + 1) // 2 for count in row]
    if fewer != spec:
        yield fewer


def shrink(stack, spec, environment, fault, name):
    """The smallest that still has the fault, of STEPS_MAX that are tried."""
    left, going = STEPS_MAX, True
    while going:
        going = False
        for tried in smaller(spec):
            left -= 1
            if left < 0:
                return spec
            if random_source.is_even(tried) == random_source.is_even(spec) and run(stack, tried, environment, name)[0][fault]:
                spec, going = tried, True
                break
    return spec


def case(seed, backend, environment):
    spec = random_source.make(seed)
    name = f"random-{seed}-{backend}"

    def act(stack):
        found, result = run(stack, spec, environment, name)
        bad = [fault for fault in NEVER if found[fault]]
        if not bad:
            return " ".join(f"{fault} {count}" for fault, count in found.items())
        small = shrink(stack, spec, environment, bad[0], name) if os.environ.get("PYTORCH_SHRINK", "1") != "0" else spec
        raise Failure(f"{' '.join(f'{fault} {count}' for fault, count in found.items())}; {small['ranks']} ranks:\n{random_source.source(small)}", result)

    return Case(f"{backend}, random {seed}: {spec['how']}, {spec['empty']}, {spec['ranks']} ranks", act)


# What two ranks say of one epoch of two points; of which points and epochs rank 1 is, and a fault that is to be found. The first has none.
BROKEN = (("1 1 1 0 0 1 1|1 2 2 0 0 2 2", ""), ("1 1 2 0 0 1 1|1 2 2 0 0 2 2", "wrong"), ("1 1 1 1 0 1 1|1 2 2 0 0 2 2", "epochs"),
          ("1 1 1 0 0 7 1|1 2 2 0 0 2 2", "garbage"), ("1 1 1 0 0 0 1|1 2 2 0 0 2 2", "split"), ("1 2 2 0 0 2 2", "deviates"))


def broken(stack):
    """What the judge is there for, and that it looks at what ranks do: rank 0 comes to one collective, and the others to another one like it."""
    spec = {"ranks": 2, "iterations": [[1, 1]], "validate": None, "after": [["barrier", 1, "int64"]]}
    for lines, fault in BROKEN:
        own = [f"MET {line}" for line in lines.split("|")] + ["END 1"]
        sees = [0 if fault in ("split", "deviates") else 1, 2]
        output = "\n".join([f"MET 0 1 1 0 0 1 {sees[0]}", "MET 0 2 2 0 0 2 2", "END 0", *own, ""])
        found = judge(spec, Result(0, 1.0, output))
        if bool(fault) != bool(found) or fault and not found[fault]:
            raise Failure(f"{fault or 'nothing'} is wrong there, and {dict(found)} found:\n{output}")
    spec = next(made for made in map(random_source.make, range(100)) if random_source.is_even(made) and made["ranks"] == 2)
    found, result = run(stack, {**spec, "apart": [8, "float64"]}, {}, "random-broken")
    if not found["wrong"]:
        raise Failure(f"{dict(found)} found", result)


def cases():
    yield Case("random: what is broken on purpose is found", broken)
    first, count = int(os.environ.get("PYTORCH_SEED", "1")), int(os.environ.get("PYTORCH_PROGRAMS", "40"))
    for backend, environment in backends():
        for seed in range(first, first + count):
            yield case(seed, backend, environment)
