"""Classes of C and Python programs without a loop over epochs: one pass over the data, or loops one behind the other, each of them once.
Calls of one signature are told apart by nothing but their places. A quarter of them is in Python."""

from script_points import Points
from shapes import base_length, counts, has_common_flow


def start(random, spec):
    """A fifth of them are even. A rank in a while has no data in a loop."""
    spec["each"] = 12
    spec["epochs"] = 2
    how = random.choice(("even", "constant", "varying", "varying", "varying"))
    none = random.choice(("first", "later", "any")) if how != "even" and random.random() < 0.2 else "none"
    spec["iterations"] = counts(random, spec, how, min(base_length(random), 16), none)
    second = "even" if has_common_flow(spec) else random.choice(("even", "constant", "varying"))
    spec["validate"] = {"points": [], "counts": counts(random, spec, second, random.randint(1, 8))}
    spec["sync"] = random.choice(("call", "call", "epoch"))
    return Points(random, spec, 0.7)


def calls(points, names, indent, like=None):
    return "".join(f"{' ' * indent}{points.add(name, like=like)}()\n" for name in names)


def some(random, points, names, indent, like=None):
    """As many of these as chance has it, perhaps none."""
    return calls(points, names[:random.randint(0, len(names))], indent, like)


def now_and_then(random, points, indent):
    """What comes every so many rounds, if anything does."""
    blank = " " * indent
    every = f"{blank}if i % {random.randint(2, 5)} == {random.randint(0, 1)}:\n"
    return random.choice((
        lambda: "", lambda: "",
        lambda: every + calls(points, "l", indent + 4),
        lambda: every + calls(points, "l", indent + 4, like="a"),
        lambda: every + f"{blank}    for j in data({random.randint(1, 3)}):\n" + calls(points, "v", indent + 8, like="a"),
        lambda: every + f"{blank}    for j in data(N2(0)):\n" + calls(points, "v", indent + 8) + calls(points, "l", indent + 4)))()


def one_pass(random, spec):
    """A loop, and what stands in front of it and behind it."""
    points = start(random, spec)
    before = some(random, points, "st", 4)
    body = calls(points, "abc"[:random.randint(1, 3)], 8) + now_and_then(random, points, 8)
    load = random.choice(("", "        load()\n"))
    spec["script"] = f"def main():\n{before}    for i in data(N(0)):\n{load}{body}{some(random, points, 'xyz', 4, like='a')}"


def loops_in_row(random, spec):
    """Two or three loops, in place or in functions of their own, with something between them or nothing."""
    points = start(random, spec)
    lengths = random.sample(("N(0)", "N(1)", "N2(0)"), random.randint(2, 3))
    inside = random.random() < 0.4
    names = iter("abcdefghi")
    functions, text = "", some(random, points, "s", 4)
    for at, length in enumerate(lengths):
        own = "".join(next(names) for _ in range(random.randint(1, 2)))
        body = calls(points, own, 8, like="a" if at else None)
        if inside:
            functions += f"def stage{at}(n):\n    for i in data(n):\n{body}    return 0\n"
        text += f"    stage{at}({length})\n" if inside else f"    for i in data({length}):\n{body}"
        if random.random() < 0.5:
            text += calls(points, "xyz"[at], 4, like=random.choice(("a", None)))
    spec["script"] = f"{functions}def main():\n{text}"


def ends_itself(random, spec):
    """A loop that finds out in its middle that there is no more, and perhaps a second one."""
    points = start(random, spec)
    front = some(random, points, "s", 4)
    ahead = some(random, points, "pq", 8)
    body = calls(points, "ab"[:random.randint(1, 2)], 8) + now_and_then(random, points, 8)
    last = some(random, points, "e", 12, like="a")
    second = f"    for i in data(N2(0)):\n{calls(points, 'v', 8, like='a')}" if random.random() < 0.4 else ""
    spec["script"] = (f"def main():\n{front}    i = 0\n    while 1:\n{ahead}        if i >= N(0):\n{last}            break\n        load()\n{body}"
                      f"        i += 1\n{second}{some(random, points, 'xyz', 4, like='a')}")


def counted_steps(random, spec):
    """Gradients of k batches for one sum, and perhaps one for what is left."""
    points = start(random, spec)
    k = random.randint(2, 4)
    step = calls(points, "ab"[:random.randint(1, 2)], 12)
    each = some(random, points, "f", 8)
    rest = f"    if q > 0:\n{calls(points, 'r', 8, like='a')}" if random.random() < 0.6 else ""
    spec["script"] = (f"def main():\n    q = 0\n    for i in data(N(0)):\n        load()\n{each}        q += 1\n        if q == {k}:\n{step}"
                      f"            q = 0\n{rest}{some(random, points, 'xy', 4, like='a')}")


CLASSES = {function.__name__: function for function in (one_pass, loops_in_row, ends_itself, counted_steps)}
