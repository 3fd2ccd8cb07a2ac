"""Makes a program that goes wrong smaller, as long as it goes wrong in the same way."""

import copy
import time

import script
from batch import Batch
from shapes import calls_bound, has_empty_first, is_even, pruned
import verdict
import ways

ROUNDS_MAX = 40
SECONDS_MAX = 60
AT_ONCE = 16
TRIES = 3  # what depends on time may not show each time


def without_rank(spec, rank):
    made = copy.deepcopy(spec)
    if spec["arrangement"] == "grid" or spec["ranks"] == 2:
        return None
    made["ranks"] -= 1
    for table in tables(made):
        for row in table:
            del row[rank]
    if made["own_stop"]:
        del made["own_stop"][rank]
    del made["pauses"][rank]
    made["pauses"].append(0)
    for point in made["points"]:
        point["root"] = min(point["root"], made["ranks"] - 1)
    return made


def tables(spec):
    made = [spec["iterations"]]
    made += [spec["validate"]["counts"]] if spec["validate"] else []
    made += [spec["torn"]["ranks"]] if spec["torn"] else []
    return made


def without_epoch(spec, epoch):
    if spec["epochs"] == 1:
        return None
    made = copy.deepcopy(spec)
    made["epochs"] -= 1
    for table in tables(made):
        del table[epoch]
    return made


def with_counts(spec, change):
    made = copy.deepcopy(spec)
    for table in tables(made)[:2]:
        if table is (made["torn"] or {}).get("ranks"):
            continue
        for row in table:
            row[:] = [change(n) for n in row]
    return made if made != spec else None


def one_count(spec):
    """Each count of its own, one less or half."""
    for at, table in enumerate(tables(spec)):
        if spec["torn"] and table is spec["torn"]["ranks"]:
            continue
        for row in range(len(table)):
            for rank in range(spec["ranks"]):
                for less in {table[row][rank] // 2, table[row][rank] - 1}:
                    if 0 < less < table[row][rank]:
                        made = copy.deepcopy(spec)
                        tables(made)[at][row][rank] = less
                        yield made


def without_points(spec):
    if spec["script"]:
        return
    for feature in ("start", "body", "after", "end", "rebuilt"):
        for at in range(len(spec[feature] or ())):
            if feature == "body" and (len(spec["body"]) == 1 or spec["torn"]):
                continue
            made = copy.deepcopy(spec)
            del made[feature][at]
            made["layers"] = made["layers"] if feature != "body" else None
            yield made
    for feature in ("warm", "unfreeze", "accumulate", "validate", "checkpoint"):
        for at in range(len(spec[feature]["points"]) if spec[feature] else 0):
            if len(spec[feature]["points"]) > 1:
                made = copy.deepcopy(spec)
                del made[feature]["points"][at]
                yield made


FEATURES = ("warm", "layers", "rebuilt", "unfreeze", "accumulate", "log", "torn", "begins", "front", "validate", "checkpoint",
            "first", "stop", "own_stop", "two_loops")
PLAIN = {"helpers": {}, "branches": {}, "loop": "for", "sync": "call", "ending": "destroy", "pauses": [0] * 6, "split": 0}


def simpler(spec):
    """The features one by one, and how it runs."""
    for feature in FEATURES:
        if spec[feature] and not spec["script"]:
            yield dict(copy.deepcopy(spec), **{feature: None})
    for key, value in PLAIN.items():
        if spec[key] != value:
            yield dict(copy.deepcopy(spec), **{key: copy.deepcopy(value)})
    for text in script.shorter(spec["script"]) if spec["script"] else ():
        yield dict(copy.deepcopy(spec), script=text)
    if spec["form"] != "plain":
        made = dict(copy.deepcopy(spec), form="plain")
        if "compiler" in made:
            made["compiler"] = ["gcc", "-O1"]
        yield made


def bold(spec):
    """Several steps at once, in all combinations."""
    def two_ranks(one):
        while one is not None and one["ranks"] > 2:
            one = without_rank(one, one["ranks"] - 1)
        return one

    def one_epoch(one):
        while one["epochs"] > 1:
            one = without_epoch(one, one["epochs"] - 1)
        return one

    def short(one):
        return with_counts(one, lambda n: (n + 3) // 4) or one

    def featureless(one):
        made = copy.deepcopy(one)
        made.update({feature: None for feature in FEATURES if not one["script"]})
        made.update(copy.deepcopy(PLAIN))
        return made

    steps = (two_ranks, one_epoch, short, featureless)
    for chosen in range((1 << len(steps)) - 1, 0, -1):
        one = spec
        for at, step in enumerate(steps):
            one = step(one) if one is not None and chosen >> at & 1 else one
        if one is not None and one != spec:
            yield one


def candidates(spec):
    """Smaller programs, the boldest first."""
    made = list(bold(spec))
    made += [without_rank(spec, rank) for rank in range(spec["ranks"])]
    made += [without_epoch(spec, epoch) for epoch in range(spec["epochs"])]
    made += [with_counts(spec, lambda n: (n + 1) // 2), with_counts(spec, lambda n: max(min(n, 1), n - 1))]
    made += list(simpler(spec)) + list(without_points(spec)) + list(one_count(spec))
    for one in made:
        if one is not None:
            one["even"] = is_even(one) and (one["kind"] != "ways" or ways.is_even(one))
            one["empty_first"] = has_empty_first(one)
    return [one for one in made if one is not None and is_alike(spec, one)]


def by_replica(spec):
    """Whether the ranks of each tensor parallel group have as many iterations."""
    return all(row[rank] == row[rank // spec["tensor"] * spec["tensor"]] for row in spec["iterations"]
               for rank in range(spec["ranks"]))


def is_alike(spec, one):
    """What is even stays so, and so on: another program might go wrong for another reason."""
    return one["even"] == spec["even"] and (spec["empty_first"] or not one["empty_first"]) and \
        (by_replica(one) or not by_replica(spec))


def size(spec):
    """What is to become less."""
    parts = len((spec["script"] or "").split())
    parts += sum(bool(value) for value in spec.values()) + sum(value != "none" for value in spec["helpers"].values())
    return spec["ranks"] * calls_bound(spec) + parts


def fails(place, name, specs, fault, tries=TRIES):
    """Of the specs, all compiled alike, the smallest that still has the fault, and its result."""
    batch = Batch(place, name, specs)
    made = None
    numbers = list(range(len(specs)))
    for _ in range(tries):
        results = batch.run(place, numbers)
        references = batch.run(place.without_join(), numbers) if fault == "deviates" and place.join else {}
        bad = [number for number in numbers
               if fault in verdict.judge(specs[number], results[number], references.get(number))]
        if bad:
            best = min(bad, key=lambda number: size(specs[number]))
            made = specs[best], results[best]
            break
    batch.remove()
    return made


def shrink(place, spec, fault, say=lambda text: None):
    """The smallest program found that has the fault, and its result; None if it does not show again."""
    at_once, tries = AT_ONCE, TRIES
    name = f"shrink_{spec['kind']}_{spec['seed']}"
    shown = fails(place, name, [spec], fault)
    if shown is None:
        return None
    result, until = shown[1], time.monotonic() + SECONDS_MAX
    if fault in ("hang", "error"):  # each takes as long as it takes to be known for one
        place, at_once, tries = place.impatient(), 3, 1
    for _ in range(ROUNDS_MAX):
        if time.monotonic() > until:
            break
        all_candidates = candidates(spec)
        smaller = None
        while all_candidates and smaller is None and time.monotonic() < until:
            first = all_candidates[0].get("compiler"), all_candidates[0]["form"]
            some = [one for one in all_candidates if (one.get("compiler"), one["form"]) == first][:at_once]
            all_candidates = [one for one in all_candidates if one not in some]
            found = fails(place, name, some, fault, tries)
            if found is not None:
                smaller, result = found
        if smaller is None:
            break
        spec = smaller
        say(f"  {spec['ranks']} ranks, {spec['epochs']} epochs, at most {calls_bound(spec)} calls")
    last = fails(place, name, [pruned(spec)], fault)
    return last if last is not None else (spec, result)
