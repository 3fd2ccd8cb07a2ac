"""Classes of C programs with two loops whose collectives look alike, compiled with and without optimisation: a compiler makes
such loops of one, too, and these are the program's own. Nothing but their places tells calls of one signature apart."""

from optimised import INDENT, program
from script_points import Points
from shapes import counts, has_common_flow

FORMS = ("bare", "shared")
COMPILERS = tuple((compiler, flags) for compiler in ("gcc", "clang") for flags in ("-O0", "-O0", "-O1", "-O2", "-O3"))


def start(random, spec):
    """A fifth of them are even. One rank in a while has no data in an epoch."""
    spec["each"] = 8
    how = random.choice(("even", "constant", "constant", "varying", "varying"))
    none = random.choice(("first", "later", "any")) if how != "even" and random.random() < 0.1 else "none"
    spec["iterations"] = counts(random, spec, how, random.randint(2, 9), none)
    second = "even" if has_common_flow(spec) else random.choice(("even", "constant", "varying"))
    spec["validate"] = {"points": [], "counts": counts(random, spec, second, random.randint(1, 6))}
    spec["loop"] = random.choice(("for", "for", "while", "forever", "iterator"))
    spec["sync"] = random.choice(("call", "call", "epoch"))
    return Points(random, spec, 1.0)


def calls(points, names, depth, like=None):
    """Collectives one after the other; those of a second loop look like those of the first."""
    for at, name in enumerate(names):
        points.add(name, like=None if like is None else like[at])
    return "".join(f"{INDENT * depth}{name}()\n" for name in names)


def bodies(random, points, depth):
    """The bodies of two loops."""
    count = random.randint(1, 3)
    first = calls(points, "abc"[:count], depth)
    return first, calls(points, "uvw"[:count], depth, like="abc")


def after(random, points):
    return "".join(f"{INDENT * 2}{points.add(name, like='a')}()\n" for name in "yz"[:random.randint(0, 2)])


def counting_on(random, spec):
    """A warm-up, and a loop that counts on from it."""
    points = start(random, spec)
    first, second = bodies(random, points, 3)
    warm = random.choice((str(random.randint(1, 4)), "N2(epoch)"))
    step = f"{INDENT * 3}i += 1\n"
    spec["script"] = program(f"{INDENT * 2}i = 0\n{INDENT * 2}while i < {warm}:\n", first, step,
                             f"{INDENT * 2}while i < n:\n", second, step, after(random, points))


def two_branches(random, spec):
    """Loops in both branches of a condition, which all ranks come to: both in an epoch, or one."""
    points = start(random, spec)
    k = random.randint(2, 3)
    if random.random() < 0.5:
        first, second = bodies(random, points, 5)
        spec["script"] = program(f"{INDENT * 2}m = N2(epoch)\n{INDENT * 2}for phase in range({k}):\n",
                                 f"{INDENT * 3}if phase == 0:\n{INDENT * 4}for i in data(n):\n", first,
                                 f"{INDENT * 3}else:\n{INDENT * 4}for i in data(m):\n", second, after(random, points))
        return
    first, second = bodies(random, points, 4)
    spec["script"] = program(f"{INDENT * 2}m = N2(epoch)\n{INDENT * 2}if epoch % {k} == 0:\n{INDENT * 3}for i in data(n):\n",
                             first, f"{INDENT * 2}else:\n{INDENT * 3}for i in data(m):\n", second, after(random, points))


def two_functions(random, spec):
    """Loops in functions of their own, one of which may be called twice."""
    points = start(random, spec)
    first, second = bodies(random, points, 2)
    spec["helpers"]["train"] = random.choice(("none", "out"))
    again = random.choice(("", f"{INDENT * 2}train(epoch, n)\n"))
    spec["script"] = (f"def train(epoch, n):\n{INDENT}for i in data(n):\n{first}{INDENT}return 0\n"
                      f"def test(epoch, n):\n{INDENT}for i in data(n):\n{second}{INDENT}return 0\n" +
                      program(f"{INDENT * 2}m = N2(epoch)\n{INDENT * 2}train(epoch, n)\n{INDENT * 2}test(epoch, m)\n", again,
                              after(random, points)))


CLASSES = {function.__name__: function for function in (counting_on, two_branches, two_functions)}


def compiler(random):
    return list(random.choice(COMPILERS))
