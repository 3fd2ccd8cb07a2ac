"""The classes of programs: what each of them has, on top of what every program has (shapes.py)."""

from scripts import SCRIPTS
from shapes import axis_sizes, barrier, base_length, beside, body, counts, new_point, scalar_for


def unevenness(random):
    return random.choice(("constant", "varying", "sometimes"))


def after(random, spec, scalar=None, most=2):
    """One or two points after each epoch, the last of them like the scalar if there is one."""
    for _ in range(random.randint(0 if scalar else 1, most - (1 if scalar else 0))):
        spec["after"].append(new_point(random, spec))
    if scalar:
        spec["after"].append(barrier(random, spec, scalar))


def common(random, spec, how, empty="none", least=1, most=5, with_after=True):
    """A loop with its unevenness, and mostly a barrier after it."""
    body(random, spec, least, most)
    scalar = scalar_for(random, spec)
    spec["iterations"] = counts(random, spec, how, base_length(random), empty)
    if with_after:
        after(random, spec, scalar if random.random() < 0.6 else None)
    if random.random() < 0.3:
        spec["start"] = [new_point(random, spec) for _ in range(random.randint(1, 3))]
    if random.random() < 0.2:
        spec["end"] = [new_point(random, spec)]
    return scalar


def rank_branches(random, spec, hows=("rank0", "odd", "data"), share=0.6):
    for point in spec["body"] + spec["after"] + spec["start"]:
        if random.random() < share:
            spec["branches"][str(point)] = random.choice(hows if point in spec["body"] else ("rank0", "odd"))


def in_front(spec, loop, even=False):
    """Perhaps some ranks come to something in front of that loop."""
    random = beside(spec, "front")
    if random.random() < 0.3:
        who = "rest" if even else random.choice(("rank0", "rest"))
        spec["front"] = {"loop": loop, "who": who, "point": new_point(random, spec)}


def begins(spec):
    """Perhaps who has data in an epoch begins it with something."""
    random = beside(spec, "begins")
    if random.random() < 0.4:
        spec["begins"] = {"point": new_point(random, spec)}


# ---- even ------------------------------------------------------------------------------------------------------

def even(random, spec):
    anything(random, spec, "even")
    begins(spec)
    in_front(spec, "iterations", even=True)


def even_branches(random, spec):
    spec["layers"] = None
    scalar = common(random, spec, "even")
    spec["layers"] = None
    if random.random() < 0.5:
        spec["first"] = {"point": barrier(random, spec, scalar)}
    rank_branches(random, spec)
    if random.random() < 0.4:
        validation(random, spec, "even", "own")
    spec["two_loops"] = random.choice((None, None, "rank0", "odd"))


def even_grid(random, spec):
    arrange_grid(random, spec)
    common(random, spec, "even", least=2)


def even_two(random, spec):
    spec["arrangement"] = "two"
    anything(random, spec, "even")


# ---- uneven ----------------------------------------------------------------------------------------------------

def constant(random, spec):
    common(random, spec, "constant")


def varying(random, spec):
    common(random, spec, random.choice(("varying", "sometimes")))
    in_front(spec, "iterations")


def log_line(random, spec):
    scalar = common(random, spec, unevenness(random))
    spec["log"] = {"every": random.choice((2, 3, 5, 10)), "point": barrier(random, spec, scalar)}


def log_like_barrier(random, spec):
    body(random, spec)
    scalar = scalar_for(random, spec)
    spec["iterations"] = counts(random, spec, unevenness(random), base_length(random))
    after(random, spec, scalar)
    spec["log"] = {"every": random.choice((2, 3, 5, 10)), "point": barrier(random, spec, scalar)}


def accumulation(random, spec):
    common(random, spec, unevenness(random))
    points = [new_point(random, spec)] if random.random() < 0.6 else []
    spec["accumulate"] = {"every": random.choice((2, 3, 4)), "points": points}
    if not points or random.random() < 0.4:
        spec["log"] = {"every": random.choice((2, 3, 5, 10)), "point": new_point(random, spec)}


def phases(random, spec):
    common(random, spec, unevenness(random))
    for feature in random.sample(("warm", "unfreeze", "rebuilt"), random.randint(1, 3)):
        if feature == "warm":
            like = [new_point(random, spec, like=point) for point in spec["body"]]
            new = [new_point(random, spec) for _ in range(random.randint(1, 3))]
            spec["warm"] = {"count": random.randint(1, 6), "points": random.choice((like, new))}
        elif feature == "unfreeze":
            points = [new_point(random, spec) for _ in range(random.randint(1, 2))]
            spec["unfreeze"] = {"epoch": random.randint(1, spec["epochs"] - 1), "points": points}
        else:
            spec["rebuilt"] = [new_point(random, spec) for _ in range(random.randint(1, 4))]


def validation(random, spec, how, whose, empty="none"):
    if whose == "own":
        points = [new_point(random, spec, scalar=random.random() < 0.5) for _ in range(random.randint(1, 2))]
    elif whose == "one":
        points = [new_point(random, spec, like=random.choice(spec["body"]))]
    else:
        points = [new_point(random, spec, like=point) for point in spec["body"]]
    table = counts(random, spec, how, base_length(random), empty)
    spec["validate"] = {"points": points, "counts": table}


def validation_even(random, spec):
    common(random, spec, unevenness(random), with_after=random.random() < 0.5)
    validation(random, spec, "even", "own")
    in_front(spec, "validation")


def validation_uneven(random, spec):
    common(random, spec, random.choice(("even", "constant", "varying", "sometimes")), with_after=random.random() < 0.5)
    validation(random, spec, unevenness(random), "own", random.choice(("none", "first", "later", "any")) if spec["after"] else "none")
    in_front(spec, "validation")


def validation_like_training(random, spec):
    common(random, spec, unevenness(random), with_after=random.random() < 0.6)
    validation(random, spec, random.choice(("even", "constant", "varying")), random.choice(("one", "body")))


def early_stopping(random, spec):
    scalar = common(random, spec, unevenness(random))
    if random.random() < 0.5:
        validation(random, spec, random.choice(("even", "varying")), "own")
    spec["stop"] = {"epoch": random.randrange(spec["epochs"]), "point": barrier(random, spec, scalar)}


def own_stopping(random, spec):
    common(random, spec, unevenness(random))
    spec["own_stop"] = [random.randint(1, spec["epochs"]) for _ in range(spec["ranks"])]
    spec["end"] = spec["end"] if random.random() < 0.5 else []


def checkpoints(random, spec):
    scalar = common(random, spec, unevenness(random))
    points = [barrier(random, spec, scalar) for _ in range(random.randint(1, 2))]
    spec["checkpoint"] = {"every": random.randint(2, 3), "points": points}


def loss_like_barrier(random, spec, how=None, empty="none"):
    body(random, spec, 2, 5)
    scalar = scalar_for(random, spec)
    spec["layers"] = None
    spec["body"][random.randrange(1, len(spec["body"]))] = barrier(random, spec, scalar)
    spec["iterations"] = counts(random, spec, how or unevenness(random), base_length(random), empty)
    after(random, spec, scalar)


def one_unit(random, spec, empty="none"):
    """A loop of one collective that is also what comes after it."""
    begins_alike(random, spec, empty, 1, 1)


def begins_alike(random, spec, empty="none", least=2, most=5):
    """What comes after the loop is what it begins with."""
    body(random, spec, least, most)
    spec["after"] = [new_point(random, spec, like=spec["body"][0])]
    spec["iterations"] = counts(random, spec, unevenness(random), base_length(random), empty)


def nothing_after(random, spec):
    common(random, spec, unevenness(random), with_after=False)
    if random.random() < 0.3:
        spec["log"] = {"every": random.choice((2, 3, 5)), "point": new_point(random, spec)}


def some_empty(random, spec, empty):
    random.choice((lambda: common(random, spec, unevenness(random), empty),
                   lambda: loss_like_barrier(random, spec, None, empty),
                   lambda: begins_alike(random, spec, empty, 1, 4)))()


def empty_first(random, spec):
    some_empty(random, spec, "first")
    begins(spec)


def empty_later(random, spec):
    some_empty(random, spec, "later")
    begins(spec)


def empty_evaluates(random, spec):
    """A rank without data evaluates in a loop of equal units."""
    common(random, spec, unevenness(random), random.choice(("later", "any")), with_after=random.random() < 0.5)
    validation(random, spec, "even", random.choice(("own", "one")))


def torn(random, spec):
    common(random, spec, unevenness(random), least=2)
    spec["layers"] = None
    ranks = [[random.randrange(2) for _ in range(spec["ranks"])] for _ in range(spec["epochs"])]
    spec["torn"] = {"after": random.randint(1, len(spec["body"]) - 1), "ranks": ranks}


def uneven_branches(random, spec):
    common(random, spec, unevenness(random))
    spec["layers"] = None
    rank_branches(random, spec)
    spec["two_loops"] = random.choice((None, None, "rank0", "odd"))


def two_communicators(random, spec):
    spec["arrangement"] = "two"
    common(random, spec, unevenness(random), least=2)


def arrange_grid(random, spec):
    spec["ranks"], spec["tensor"] = random.choice(((4, 2), (4, 2), (6, 2), (6, 3)))
    spec["arrangement"] = "grid"
    spec["split"] = random.randrange(2)


def grid_by_replica(random, spec):
    arrange_grid(random, spec)
    common(random, spec, unevenness(random), least=2)
    tensor = spec["tensor"]
    for row in spec["iterations"]:
        row[:] = [row[rank // tensor * tensor] for rank in range(spec["ranks"])]


def grid_by_rank(random, spec):
    arrange_grid(random, spec)
    common(random, spec, unevenness(random), least=2)


def anything(random, spec, how=None, empty="none"):
    """Several features at once."""
    how = how or unevenness(random)
    scalar = common(random, spec, how, empty, with_after=random.random() < 0.8)
    chance = lambda share: random.random() < share
    if chance(0.3):
        spec["log"] = {"every": random.choice((2, 3, 5, 10)), "point": barrier(random, spec, scalar)}
    if chance(0.2):
        spec["accumulate"] = {"every": random.choice((2, 3)), "points": [new_point(random, spec)]}
    if chance(0.3):
        validation(random, spec, "even" if how == "even" else random.choice(("even", "varying")),
                   random.choice(("own", "one", "body")))
    if chance(0.2):
        spec["unfreeze"] = {"epoch": 1, "points": [new_point(random, spec)]}
    if chance(0.2):
        spec["rebuilt"] = [new_point(random, spec) for _ in range(random.randint(1, 4))]
    if chance(0.2):
        spec["checkpoint"] = {"every": 2, "points": [barrier(random, spec, scalar)]}
    if chance(0.2):
        spec["stop"] = {"epoch": random.randrange(spec["epochs"]), "point": barrier(random, spec, scalar)}
    if chance(0.2):
        spec["layers"] = None
        rank_branches(random, spec, share=0.3)


def anything_empty(random, spec):
    anything(random, spec, None, "any")


CLASSES = {function.__name__: function for function in (
    even, even_branches, even_grid, even_two, constant, varying, log_line, log_like_barrier, accumulation, phases, validation_even,
    validation_uneven, validation_like_training, early_stopping, own_stopping, checkpoints, loss_like_barrier, one_unit,
    begins_alike, nothing_after, empty_first, empty_later, empty_evaluates, torn, uneven_branches, two_communicators,
    grid_by_replica, grid_by_rank, anything, anything_empty)}
CLASSES.update(SCRIPTS)
