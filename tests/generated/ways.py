"""Classes of even C programs whose ranks come to one sequence of collectives in ways of their own: a rank makes the first or the last
round of a loop outside of it, goes round two loops where others go round one, or comes to a call in another branch, in another function,
or in the loop behind it. Without nccl-join all of that meets. Nothing but their places tells calls of one signature apart."""

from optimised import INDENT, program
from script_points import Points
from shapes import counts

FORMS = ("bare", "shared")
COMPILERS = tuple((compiler, flags) for compiler in ("gcc", "clang") for flags in ("-O0", "-O0", "-O1", "-O2", "-O3"))


class Ways:
    """Statements. A rank is the one that does it differently where `r == 0`, or `r % 2 == 1`."""

    def __init__(self, random, points, share):
        self.random, self.points, self.share = random, points, share
        self.loops = 0
        self.functions = ""

    def some(self):
        return self.random.choice(("(r == 0)", "(r % 2 == 1)"))

    def differs(self):
        return self.random.random() < self.share

    def call(self, name, depth):
        indent = INDENT * depth
        if not self.differs():
            return f"{indent}{name}()\n"
        some = self.some()
        between = self.random.choice(("", f"{indent}log({depth})\n"))
        return self.random.choice((
            f"{indent}if {some}:\n{indent}{INDENT}{name}()\n{indent}else:\n{indent}{INDENT}{name}()\n",
            f"{indent}if {some}:\n{indent}{INDENT}{name}()\n{between}{indent}if not {some}:\n{indent}{INDENT}{name}()\n",
            f"{indent}if {some}:\n{indent}{INDENT}{self.function(name)}(epoch, 1)\n{indent}else:\n{indent}{INDENT}{name}()\n"))

    def function(self, name):
        """A function with a loop of that call."""
        made = f"do{len(self.functions)}"
        self.functions += (f"def {made}(epoch, n):\n{INDENT}for j in range(n):\n{INDENT * 2}{name}()\n"
                           f"{INDENT}return 0\n")
        self.points.spec["helpers"][made] = "out"
        return made

    def rounds(self, count, body, depth):
        self.loops += 1
        return f"{INDENT * depth}for j{self.loops} in range({count}):\n{body(depth + 1)}"

    def loop(self, count, body, depth):
        indent, some = INDENT * depth, self.some()
        if not self.differs():
            return self.rounds(count, body, depth)
        how = self.random.choice(("first", "last", "branch", "two"))
        if how == "first":
            return f"{indent}if {some}:\n{body(depth + 1)}" + self.rounds(f"{count} - {some}", body, depth)
        if how == "last":
            return self.rounds(f"{count} - {some}", body, depth) + f"{indent}if {some}:\n{body(depth + 1)}"
        otherwise = f"{indent}else:\n" + self.rounds(count, body, depth + 1)
        halves = (self.rounds(count, body, depth + 1) if how == "branch" else
                  self.rounds(f"{count} // 2", body, depth + 1) + self.rounds(f"{count} - {count} // 2", body, depth + 1))
        return f"{indent}if {some}:\n" + halves + otherwise

    def first_in_loop(self, name, count, body, depth):
        """A call that some ranks make in front of the loop, and others in its first round."""
        indent, some = INDENT * depth, self.some()
        at = f"j{self.loops + 1}"
        inner = lambda depth: (f"{INDENT * depth}if {at} == 0 and not {some}:\n{INDENT * (depth + 1)}{name}()\n" + body(depth))
        return f"{indent}if {some}:\n{indent}{INDENT}{name}()\n" + self.rounds(count, inner, depth)


def start(random, spec, share):
    spec["each"] = 24
    spec["iterations"] = counts(random, spec, "even", random.randint(1, 5))
    spec["loop"] = "for"
    spec["sync"] = "call"
    points = Points(random, spec, 1.0)
    for name in "abc"[:random.randint(1, 3)]:
        points.add(name)
    return Ways(random, points, share)


def names(ways):
    return sorted(ways.points.spec["names"])


def in_row(random, spec):
    """Calls and loops one behind the other."""
    ways = start(random, spec, random.choice((0.15, 0.3, 0.6)))
    made = ""
    for _ in range(random.randint(1, 3)):
        choice = random.random()
        body = lambda depth, name=random.choice(names(ways)): ways.call(name, depth)
        count = random.choice(("n", "n", "2", "3"))
        if choice < 0.3:
            made += ways.call(random.choice(names(ways)), 2)
        elif choice < 0.45:
            made += ways.first_in_loop(random.choice(names(ways)), count, body, 2)
        else:
            made += ways.loop(count, body, 2)
    spec["script"] = ways.functions + program(made)


def in_each_other(random, spec):
    """Loops in loops."""
    ways = start(random, spec, random.choice((0.15, 0.3, 0.6)))
    inner = lambda depth: "".join(ways.call(name, depth) for name in names(ways)[:2])
    rest = random.choice(("", "a"))
    body = lambda depth: ways.loop("2", inner, depth) + (ways.call(rest, depth) if rest else "")
    end = ways.call(random.choice(names(ways)), 2) if random.random() < 0.6 else ""
    made = ways.loop("n", body, 2) + end
    spec["script"] = ways.functions + program(made)


CLASSES = {function.__name__: function for function in (in_row, in_each_other)}


def calls(spec, rank):
    """What a rank calls, by the script: it is Python."""
    made = []
    known = {name: lambda number=number: made.append(number) for name, number in spec["names"].items()}
    known.update(E=spec["epochs"], R=lambda: rank, N=lambda epoch: spec["iterations"][epoch][rank], log=lambda number: None)
    exec(spec["script"], known)
    known["main"]()
    return made


def is_even(spec):
    """Of a program that has been made smaller: whether it is still one of these."""
    return all(calls(spec, rank) == calls(spec, 0) for rank in range(spec["ranks"]))


def compiler(random):
    return list(random.choice(COMPILERS))
