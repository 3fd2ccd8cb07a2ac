"""Scripts whose ranks send to and receive from each other, besides what all take part in (scripts.py)."""

from script_points import Points, begin


def exchange(random, spec, collective, each=4, **more):
    """Points whose signature is an exchange of messages."""
    points = begin(random, spec, each=each, empty=0, **more)
    wanted = {"collective": collective, "operation": "sum", "datatype": random.choice(("float32", "int64")), "root": 0}
    return points, wanted


def experts(random, spec):
    """Two all-to-alls and a gradient in each iteration, and perhaps one more after the epoch."""
    points, wanted = exchange(random, spec, "all_to_all", each=6)
    points.add("dispatch", **wanted)
    points.add("combine", like="dispatch", **wanted)
    points.add("grad", collective="all_reduce")
    after = random.choice((points.barrier(), "        rest()\n"))
    if "rest" in after:
        points.add("rest", like="dispatch", **wanted)
    spec["script"] = f"""\
def expert(epoch, i):
    dispatch()
    load()
    combine()
    return 0
def main():
    for epoch in range(E):
        for i in data(N(epoch)):
            for l in range({random.randint(1, 2)}):
                expert(epoch, i)
            grad()
{after}"""


def all_to_alls(random, spec):
    """Nothing but all-to-alls, and one more after the loop."""
    points, wanted = exchange(random, spec, "all_to_all")
    points.add("a", **wanted)
    points.add("b", **wanted)
    points.add("rest", like="a", **wanted)
    spec["script"] = f"""\
def main():
    for epoch in range(E):
        for i in data(N(epoch)):
            a()
            {random.choice(("b()", "load()"))}
        rest()
"""


def rings(random, spec):
    """Shifts around a ring, left into another one or into a collective."""
    points, wanted = exchange(random, spec, "ring", each=6)
    points.add("shift", **wanted)
    points.add("grad", collective="all_reduce")
    after = random.choice((points.barrier(), "        rest()\n"))
    if "rest" in after:
        points.add("rest", like="shift", **wanted)
    spec["script"] = f"""\
def main():
    for epoch in range(E):
        for i in data(N(epoch)):
            for l in range({random.randint(1, 3)}):
                shift()
            {random.choice(("grad()", "load()"))}
{after}"""


def pipelines(random, spec):
    """Stages: each receives from the one before and sends to the next, forward and perhaps back."""
    points, wanted = exchange(random, spec, "forward", each=4)
    points.add("forth", **wanted)
    points.add("back", **dict(wanted, collective="backward"))
    points.add("grad", collective="all_reduce")
    spec["script"] = f"""\
def main():
    for epoch in range(E):
        for i in data(N(epoch)):
            forth()
            {random.choice(("back()", "load()"))}
            {random.choice(("grad()", "grad()", "load()"))}
{points.barrier()}"""
