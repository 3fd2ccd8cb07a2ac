"""Classes of C programs whose calls a compiler may copy: what it knows of the first rounds of a loop, of the last one, of those
before and after `i <= rank`, of all rounds with `rank == 0`, it puts into code of their own. Ranks do something by themselves
(`log`) by such conditions between collectives. Nothing but their places tells calls of one signature apart."""

import textwrap

from script_points import Points
from shapes import beside, counts, has_common_flow

FORMS = ("bare", "shared")
COMPILERS = tuple((compiler, flags) for compiler in ("gcc", "clang") for flags in ("-O1", "-O2", "-O3", "-O3", "-Os"))
INDENT = " " * 4


def start(random, spec, empty=0.06):
    """Half of them are even."""
    spec["each"] = 8
    spec["prepares"] = beside(spec, "prepares").random() < 0.7
    how = random.choice(("even", "even", "constant", "varying"))
    none = random.choice(("first", "later", "any")) if how != "even" and random.random() < empty else "none"
    base = random.choice((random.randint(1, 3), random.randint(2, 6), random.randint(4, 12)))
    spec["iterations"] = counts(random, spec, how, base, none)
    spec["loop"] = random.choice(("for", "for", "for", "while", "forever", "iterator", "unrolled"))
    spec["sync"] = random.choice(("call", "call", "epoch"))
    return Points(random, spec, 0.9)


class Body:
    """Statements of a loop over i of `count` rounds."""

    def __init__(self, random, points, count, even):
        self.random, self.points, self.count, self.even = random, points, count, even
        self.logs = 0

    def condition(self):
        """What ranks do something by themselves by."""
        k = self.random.randint(1, 3)
        return self.random.choice((
            "i == 0", f"i == {k}", f"i < {k}", f"i + 1 == {self.count}", f"i + {k} < {self.count}", "i <= r", "i == r", "i > r",
            "r == 0", "r == 0", f"r < {k}", "r % 2 == 1", "i % 2 == r % 2", f"i % {k + 1} == 0", "epoch == 0",
            "epoch <= r", "i == 0 and r == 0", f"i + 1 == {self.count} and r == 0", "D(epoch, i, 7) % 3 == 0"))

    def common(self):
        """What all ranks come to a collective by, in even programs."""
        k = self.random.randint(1, 3)
        return self.random.choice(("i == 0", f"i < {k}", f"i + 1 == {self.count}", f"i % {k + 1} == 0", "epoch == 0"))

    def log(self):
        self.logs += 1
        return f"log({self.logs})"

    def statement(self, name, depth):
        indent = INDENT * depth
        kind = self.random.random()
        if kind < 0.45:
            return f"{indent}{name}()\n"
        if kind < 0.80:
            made = f"{indent}if {self.condition()}:\n{indent}{INDENT}{self.log()}\n"
            if self.random.random() < 0.2:
                made += f"{indent}else:\n{indent}{INDENT}{self.log()}\n"
            return made + f"{indent}{name}()\n"
        if kind < 0.88:
            return f"{indent}{name}()\n{indent}{self.log()}\n"
        if kind < 0.94 and self.even:
            return f"{indent}if {self.common()}:\n{indent}{INDENT}{name}()\n"
        return f"{indent}for j in range({self.random.randint(2, 4)}):\n{indent}{INDENT}{name}()\n"

    def text(self, names, depth):
        loads = self.random.random() < 0.3
        made = f"{INDENT * depth}load()\n" if loads or self.points.spec["prepares"] else ""
        return made + "".join(self.statement(name, depth) for name in names)


def body(random, points, count, even, names):
    for name in names:
        points.add(name)
    return Body(random, points, count, even).text(names, 3)


def after(random, points):
    made = ""
    for name in "yz"[:random.randint(0, 2)]:
        if random.random() < 0.3:
            made += f"{INDENT * 2}if {random.choice(('r == 0', 'epoch == 0', 'epoch <= r', 'r % 2 == 1'))}:\n{INDENT * 3}log(9)\n"
        made += f"{INDENT * 2}{points.add(name)}()\n"
    return made


def program(*parts):
    """What a compiler knows to stay as it is must be in a variable."""
    return (f"def main():\n{INDENT}r = R()\n{INDENT}for epoch in range(E):\n{INDENT * 2}n = N(epoch)\n" + "".join(parts))


def rounds(random, spec):
    """A loop, and perhaps something after it."""
    points = start(random, spec)
    inner = body(random, points, "n", has_common_flow(spec), "abcd"[:random.randint(1, 4)])
    spec["script"] = program(f"{INDENT * 2}for i in data(n):\n", inner, after(random, points))


def rounds_known(random, spec):
    """As many rounds as the compiler knows."""
    points = start(random, spec)
    count = str(random.randint(2, 9))
    spec["iterations"] = [[int(count)] * spec["ranks"] for _ in range(spec["epochs"])]
    inner = body(random, points, count, True, "abcd"[:random.randint(1, 4)])
    spec["script"] = program(f"{INDENT * 2}for i in {random.choice(('data', 'range'))}({count}):\n", inner, after(random, points))


def two_loops(random, spec):
    """One loop after the other."""
    points = start(random, spec)
    even = has_common_flow(spec)
    spec["validate"] = {"points": [], "counts": counts(random, spec, "even" if even else random.choice(("even", "varying")),
                                                       random.randint(1, 6))}
    first = body(random, points, "n", even, "ab"[:random.randint(1, 2)])
    second = body(random, points, "m", even, "vw"[:random.randint(1, 2)])
    if beside(spec, "every second epoch").random() < 0.3:
        condition, head = f"{INDENT * 2}if epoch % 2 == 1:\n", f"{INDENT * 3}for i in data(m):\n"
        second = condition + head + textwrap.indent(second, INDENT)
    else:
        second = f"{INDENT * 2}for i in data(m):\n" + second
    spec["script"] = program(f"{INDENT * 2}for i in data(n):\n", first, f"{INDENT * 2}m = N2(epoch)\n", second,
                             after(random, points))


def in_a_function(random, spec):
    """The loop, or its rounds, in a function of its own, which is called with numbers."""
    points = start(random, spec)
    even = has_common_flow(spec)
    names = "abc"[:random.randint(1, 3)]
    for name in names:
        points.add(name)
    spec["helpers"]["train"] = random.choice(("none", "none", "out"))
    if random.random() < 0.5:
        text = Body(random, points, "n", even).text(names, 2)
        spec["script"] = (f"def train(epoch, n, r):\n{INDENT}for i in data(n):\n{text}{INDENT}return 0\n" +
                          program(f"{INDENT * 2}train(epoch, n, r)\n", after(random, points)))
    else:
        text = Body(random, points, "n", even).text(names, 1)
        spec["script"] = (f"def step(epoch, i, n, r):\n{text}{INDENT}return 0\n" +
                          program(f"{INDENT * 2}for i in data(n):\n{INDENT * 3}step(epoch, i, n, r)\n",
                                  after(random, points)))


CLASSES = {function.__name__: function for function in (rounds, rounds, rounds_known, two_loops, in_a_function)}


def compiler(random):
    return list(random.choice(COMPILERS))
