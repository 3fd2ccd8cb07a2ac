"""Random programs: what each of them does, as a dictionary that can be written down and made smaller.

A program has points (what a collective there is for), each with a signature (what NCCL sees of it), and features: lists
of points for the parts of a training program, counts by epoch and rank, and how it runs. tree.py makes code of it.

    points      list of signatures; a point's number is its place in the list
    start       before everything                        end         after all epochs
    warm        {count, points}: a loop before the epochs, equal on all ranks
    body        of an iteration                          layers      [from, to): these of it by one line, in a loop
    rebuilt     instead of the body, in a rank's first iteration
    unfreeze    {epoch, points}: more for the body from that epoch on
    accumulate  {every, points}: the points in each iteration, the body in every k-th
    log         {every, point}: after every k of the rank's own iterations
    torn        {after, ranks}: [epoch][rank]: whether the last iteration ends after that many points of the body
    begins      {point}: before the loop of an epoch, by ranks that have an iteration in it
    front       {loop, who, point}: in front of that loop (iterations or validation), by rank0 or by ranks whose rounds of it
                are odd (rest)
    validate    {points, counts}: a loop after the epoch, counts by [epoch][rank]
    after       each epoch
    checkpoint  {every, points}: after every k epochs
    first       {point}: rank 0 comes to it earlier in the program than the others, at another line
    stop        {epoch, point}: all ranks end their epochs there, after one more collective
    own_stop    by rank: epochs that it takes part in
    two_loops   rank0 or odd: these ranks have a loop of their own, at other lines, with the same points
    mixed       [point, point]: rank 0 comes to the first, the others to the second; for the tests of the tests
    branches    {point: how}: the point has two lines; rank0, odd or data say which one is taken
    script      instead of all these: its text (script.py), with names {name: point}, and each: calls of an iteration
    own_data    whether the script's D differs by rank
    merged      whether a compiler may make one call of two halves of a branch that look alike: then they are one place
"""

import copy
import random

DATATYPES = ("float32", "float64", "int64", "int32")
BITS = {"float32": 22, "float64": 48, "int64": 62, "int32": 30}  # as in rank.c
CALLS_MAX = 900  # of a rank; rank.h has room for a few more


def signature(random, spec, scalar=False, axis=0):
    ranks = spec["ranks"]
    if scalar:
        return {"collective": "all_reduce", "count": 1, "datatype": "int64", "operation": "sum", "root": 0, "axis": axis}
    collective = random.choices(("all_reduce", "reduce_scatter", "broadcast", "reduce"), (12, 3, 2, 1))[0]
    operation = random.choices(("sum", "avg", "max"), (6, 3, 1))[0]
    datatype = random.choice(("float32", "float32", "float64") if operation == "avg" else DATATYPES)
    count = random.choice((64, 100, 256, 300, 512)) + (random.randrange(200) if spec["distinct"] else 0)
    return {"collective": collective, "count": max(count, ranks), "datatype": datatype,
            "operation": "sum" if collective == "broadcast" else operation, "root": spec["root"][axis], "axis": axis}


def new_point(random, spec, scalar=False, like=None, axis=None):
    """Its number. like: the signature of that point."""
    if like is not None:
        made = dict(spec["points"][like])
    else:
        if axis is None:
            axis = random.randrange({"one": 1, "two": 2, "grid": 3}[spec["arrangement"]])
        made = signature(random, spec, scalar, axis)
        while not scalar and spec["distinct"] and made in spec["points"]:
            made = signature(random, spec, scalar, axis)
    spec["points"].append(made)
    return len(spec["points"]) - 1


def scalar_for(random, spec):
    """A scalar whose bits are enough for the numbers of all calls."""
    fitting = [("int64", "sum")]
    for datatype, operation in (("float32", "sum"), ("float32", "avg"), ("float64", "avg"), ("float64", "sum"), ("int32", "sum")):
        if 1 << BITS[datatype] // spec["ranks"] > CALLS_MAX + 100:
            fitting.append((datatype, operation))
    datatype, operation = random.choice(fitting)
    axis = random.randrange(2) if spec["arrangement"] == "two" else 0
    return {"collective": "all_reduce", "count": 1, "datatype": datatype, "operation": operation, "root": 0, "axis": axis}


def base_length(random):
    return random.choice((random.randint(1, 4), random.randint(3, 12), random.randint(10, 30)))


def counts(random, spec, how, base, empty="none"):
    """Iterations by [epoch][rank]. how: even, constant, varying or sometimes (some epochs equal). Each rank has one at
    least, but for those made empty: in the first epoch, in later ones, or anywhere."""
    ranks, epochs = spec["ranks"], spec["epochs"]
    some = lambda: base + random.randrange(base + 2)
    near = random.random() < 0.4  # as with samplers: one more or less
    few = lambda: max(1, base - random.randrange(2)) if near else some()
    table = []
    constant = [few() for _ in range(ranks)]
    if how != "even" and len(set(constant)) == 1:
        constant[random.randrange(ranks)] += 1
    for epoch in range(epochs):
        if how == "even":
            row = [base] * ranks
        elif how == "constant":
            row = list(constant)
        elif how == "varying":
            row = [few() for _ in range(ranks)]
        else:
            row = [few() for _ in range(ranks)] if random.random() < 0.5 else [base] * ranks
        table.append(row)
    if empty in ("first", "any"):
        table[0][random.randrange(ranks)] = 0
    if empty in ("later", "any"):
        for epoch in range(1, epochs):
            for rank in range(ranks):
                if random.random() < 0.25:
                    table[epoch][rank] = 0
        if epochs > 1:
            table[random.randrange(1, epochs)][random.randrange(ranks)] = 0
    return table


def beside(spec, what):
    """Chances that change nothing else of a program of its seed."""
    return random.Random(f"{what} {spec['seed']}")


def begin(random, name, seed, kind, forms):
    spec = {"class": name, "seed": seed, "kind": kind, "form": random.choice(forms)}
    spec["ranks"] = random.choices((2, 3, 4, 5, 6), (4, 4, 3, 1, 1))[0]
    spec["epochs"] = random.randint(2, 5)
    spec["distinct"] = random.random() < 0.5
    spec["arrangement"] = "one"
    spec["tensor"] = 1
    spec["split"] = 0
    spec["points"] = []
    for feature in ("start", "body", "after", "end"):
        spec[feature] = []
    for feature in ("warm", "layers", "rebuilt", "unfreeze", "accumulate", "log", "torn", "begins", "front", "validate",
                    "checkpoint", "first", "stop", "own_stop", "two_loops", "script"):
        spec[feature] = None
    spec["own_data"] = spec["merged"] = False
    spec["branches"] = {}
    spec["helpers"] = {part: random.choice(("none", "none", "out", "inline")) for part in
                       ("train", "step", "validate", "checkpoint", "epoch")}
    spec["loop"] = random.choice(("for", "for", "while", "forever", "iterator"))
    spec["sync"] = random.choice(("call", "call", "iteration", "epoch"))
    spec["ending"] = random.choice(("destroy", "destroy", "finalize", "exit", "return"))
    spec["pauses"] = [0] * 6
    if random.random() < 0.3:
        spec["pauses"] = [random.choice((0, 0, 100, 300)) for _ in range(6)]
    return spec


def body(random, spec, least=1, most=5):
    spec["root"] = [random.randrange(size) for size in axis_sizes(spec)]
    length = random.randint(least, most)
    for _ in range(length):
        like = random.choice(spec["body"]) if spec["body"] and not spec["distinct"] and random.random() < 0.5 else None
        spec["body"].append(new_point(random, spec, like=like))
    if length > 2 and random.random() < 0.3:
        first = random.randrange(length - 1)
        spec["layers"] = [first, random.randint(first + 2, length)]


def axis_sizes(spec):
    if spec["arrangement"] == "grid":
        return [spec["ranks"], spec["tensor"], spec["ranks"] // spec["tensor"]]
    return [spec["ranks"]] * {"one": 1, "two": 2}[spec["arrangement"]]


def barrier(random, spec, scalar):
    spec["points"].append(dict(scalar))
    return len(spec["points"]) - 1


def calls_bound(spec):
    """At most that many calls of a rank."""
    table = lambda rows: sum(max(row) for row in rows)
    if spec["script"]:
        counts = spec["iterations"] + (spec["validate"]["counts"] if spec["validate"] else [])
        return (table(counts) + 4 * spec["epochs"]) * spec["each"] + 10
    each = len(spec["body"]) + 1
    for feature in ("unfreeze", "accumulate"):
        each += len(spec[feature]["points"]) if spec[feature] else 0
    each = max(each, len(spec["rebuilt"] or []))
    total = table(spec["iterations"]) * each + 40
    total += spec["epochs"] * (len(spec["after"]) + 6)
    if spec["validate"]:
        total += table(spec["validate"]["counts"]) * len(spec["validate"]["points"])
    return total


def shorten(spec):
    """Fewer iterations until the calls fit."""
    while calls_bound(spec) > CALLS_MAX:
        for rows in [spec["iterations"]] + ([spec["validate"]["counts"]] if spec["validate"] else []):
            for row in rows:
                row[:] = [(n + 1) // 2 for n in row]
    return spec


def has_empty_first(spec):
    """Whether a rank has no iteration in its first epoch."""
    return any(n == 0 for n in spec["iterations"][0])


def has_common_flow(spec):
    """Whether all ranks have the same counts."""
    tables = [spec["iterations"]] + ([spec["validate"]["counts"]] if spec["validate"] else [])
    tables += [spec["torn"]["ranks"]] if spec["torn"] else []
    return all(len(set(row)) == 1 for rows in tables for row in rows) and len(set(spec["own_stop"] or [0])) == 1


def is_even(spec):
    """Whether all ranks do the same, so that no rank ever joins."""
    alone = spec["front"] and spec["front"]["who"] == "rank0"
    return has_common_flow(spec) and not spec["own_data"] and not alone


def make(kind, seed, classes, forms):
    """The program of that seed. classes: name to function (classes.py); forms: what a class may have."""
    names = list(classes)
    name = names[seed % len(names)]
    state = random.Random(f"{kind} {seed}")
    spec = begin(state, name, seed, kind, forms(name))
    classes[name](state, spec)
    shorten(spec)
    spec["even"] = is_even(spec)
    spec["empty_first"] = has_empty_first(spec)
    spec["collides"] = has_collisions(spec)
    return spec


def with_points(spec, change):
    """A copy in which every list of points has become change(list)."""
    made = copy.deepcopy(spec)
    for feature in ("start", "body", "after", "end", "rebuilt", "mixed"):
        if made.get(feature):
            made[feature] = change(made[feature])
    for feature in ("warm", "unfreeze", "accumulate", "validate", "checkpoint"):
        if made[feature]:
            made[feature]["points"] = change(made[feature]["points"])
    for feature in ("log", "begins", "front", "first", "stop"):
        if made[feature]:
            made[feature]["point"], = change([made[feature]["point"]])
    return made


def parts(spec):
    """The lists of points that it has."""
    if spec["script"]:
        return [[point] for point in set(spec["names"].values())]
    made = []
    with_points(spec, lambda points: made.append(list(points)) or points)
    return made


def pruned(spec):
    """Without the points that nothing comes to."""
    if spec["script"]:
        return spec
    used = sorted({point for part in parts(spec) for point in part})
    new = {point: at for at, point in enumerate(used)}
    made = with_points(spec, lambda points: [new[point] for point in points])
    made["points"] = [spec["points"][point] for point in used]
    made["branches"] = {str(new[int(point)]): how for point, how in spec["branches"].items() if int(point) in new}
    return made


def has_collisions(spec):
    """Whether two of its parts have a point with the same signature."""
    seen = [{tuple(spec["points"][point].values()) for point in part} for part in parts(spec)]
    return any(seen[a] & seen[b] for a in range(len(seen)) for b in range(a))
