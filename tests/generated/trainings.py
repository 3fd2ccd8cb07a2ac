"""Classes of C and Python programs that train in ways that others do not have: several models in one loop, accumulation with a remainder
behind the loop, two networks in turn, phases out of a table, and a leader that tells workers what to do. Calls of one signature are
told apart by nothing but their places. Or (one_line) not even by these, but by the rounds of loops around. A quarter of them is in
Python."""

from script_points import Points
from shapes import counts, has_common_flow

FORMS = ("bare", "shared")
PYTHON_FORMS = ("plain", "plain", "wrapper", "decorator")
COMPILERS = tuple((compiler, flags) for compiler in ("gcc", "clang") for flags in ("-O0", "-O0", "-O1", "-O2", "-O3"))


def language(seed, count):
    """count: how many classes there are."""
    return "python" if seed // count % 4 == 0 else "c"


def start(random, spec, most=9):
    """A quarter of them are even. A rank in a while has no data in an epoch."""
    spec["each"] = 8
    how = random.choice(("even", "constant", "varying", "varying"))
    none = random.choice(("first", "later", "any")) if how != "even" and random.random() < 0.2 else "none"
    spec["iterations"] = counts(random, spec, how, random.randint(1, most), none)
    second = "even" if has_common_flow(spec) else random.choice(("even", "constant", "varying"))
    spec["validate"] = {"points": [], "counts": counts(random, spec, second, random.randint(1, 6))}
    spec["sync"] = random.choice(("call", "call", "epoch"))
    return Points(random, spec, 0.8)


def several_models(random, spec):
    """One after the other in each epoch, or each for some epochs, by one function or by functions of their own."""
    points = start(random, spec)
    first = points.add("a")
    second = points.add("b", like="a")
    check = random.choice(("", f"            {points.add('v', scalar=True)}()\n"))
    end = points.barrier()
    how = random.choice(("functions", "one", "in_turn"))
    if how == "functions":
        spec["script"] = f"""\
def train_first(epoch, n):
    for i in data(n):
        load()
        {first}()
    return 0
def train_second(epoch, n):
    for i in data(n):
        load()
        {second}()
    return 0
def main():
    for epoch in range(E):
        train_first(epoch, N(epoch))
{check and "        v()" + chr(10)}        train_second(epoch, {random.choice(("N(epoch)", "N2(epoch)"))})
{end}"""
    elif how == "one":
        spec["script"] = f"""\
def step(epoch, i, which):
    load()
    if which == 0:
        {first}()
    else:
        {second}()
    return 0
def train(epoch, which, n):
    for i in data(n):
        step(epoch, i, which)
    return 0
def main():
    for epoch in range(E):
        for which in range(2):
            train(epoch, which, {random.choice(("N(epoch)", "N(epoch) * (1 - which) + N2(epoch) * which"))})
{check}{end}"""
    else:
        spec["script"] = f"""\
def main():
    for epoch in range(E):
        for i in data(N(epoch)):
            load()
            if (i + epoch) % 2 == 0:
                {first}()
            else:
                {second}()
{check and "        v()" + chr(10)}{end}"""


def one_line(random, spec):
    """Several models, or folds, by one line: what tells them apart is the round of a loop around."""
    points = start(random, spec)
    points.alike = False
    count = random.randint(2, 3)
    first = points.add("a")
    for name in "bc"[:count - 1]:
        spec["points"].append(dict(spec["points"][spec["names"][first]]))
        spec["names"][name] = len(spec["points"]) - 1
    end = points.barrier()
    n = random.choice(("N(epoch)", "N2(epoch)" if count == 3 else "N(epoch) * (1 - which) + N2(epoch) * which"))
    call = f'one_of("{"abc"[:count]}", which)'
    how = random.choice(("models", "function", "folds"))
    if how == "models":
        spec["script"] = f"""\
def main():
    for epoch in range(E):
        for which in range({count}):
            for i in data({n}):
                load()
                {call}
{end}"""
    elif how == "function":
        spec["script"] = f"""\
def train(epoch, which, n):
    for i in data(n):
        load()
        {call}
    return 0
def main():
    for epoch in range(E):
        for which in range({count}):
            train(epoch, which, {n})
{end}"""
    else:
        spec["script"] = f"""\
def main():
    for which in range({count}):
        for epoch in range(E):
            for i in data({n}):
                load()
                {call}
    load()
{end.replace('        ', '    ')}"""


def remainders(random, spec):
    """Gradients of k batches for one sum; what is left has a sum of its own, behind the loop."""
    points = start(random, spec, 12)
    points.add("a")
    if random.random() < 0.5:
        points.add("b", like="a")
    step = "".join(f"{name}()\n                " for name in sorted(points.spec["names"]))
    rest = points.add("rest", like="a")
    k = random.randint(2, 4)
    counted = random.random() < 0.5
    end = "".join(f"        {points.add(name, like='a')}()\n" for name in "yz"[:random.randint(0, 2)])
    if counted:
        spec["script"] = f"""\
def main():
    for epoch in range(E):
        q = 0
        for i in data(N(epoch)):
            load()
            q += 1
            if q == {k}:
                {step}q = 0
        if q > 0:
            {rest}()
{end}{points.barrier()}"""
    else:
        spec["script"] = f"""\
def main():
    for epoch in range(E):
        n = N(epoch)
        for i in data(n // {k}):
            if i >= 0:
                {step}load()
        if n % {k} != 0:
            {rest}()
{end}{points.barrier()}"""


def in_turn(random, spec):
    """A discriminator's steps, and a generator's behind each k of them, or as many as there are batches."""
    points = start(random, spec)
    points.add("d")
    points.add("g", like="d")
    k = random.randint(2, 3)
    inner = random.choice((f"for j in range({k}):\n                load()\n                d()",
                           f"if i % {k} != 0:\n                d()",
                           f"if epoch > 0 or i > {k}:\n                d()"))
    validate = random.choice(("", "        for i in data(N2(epoch)):\n            e()\n"))
    if validate:
        points.add("e", like="d")
    spec["script"] = f"""\
def main():
    for epoch in range(E):
        for i in data(N(epoch)):
            {inner}
            g()
{validate}{points.barrier()}"""


def phase_table(random, spec):
    """Each epoch, or each part of it, one of several loops, by its number."""
    points = start(random, spec)
    names = "abc"[:random.randint(2, 3)]
    for name in names:
        points.add(name, like=None if name == "a" else "a")
    functions = "".join(f"""\
def phase_{name}(epoch, n):
    for i in data(n):
        load()
        {name}()
    return 0
""" for name in names)
    table = "".join(f"    {'elif' if at else 'if'} phase == {at}:\n        phase_{name}(epoch, n)\n" for at, name in enumerate(names))
    functions += f"def perform(epoch, phase, n):\n{table}    return 0\n"
    if random.random() < 0.5:
        body = f"        perform(epoch, epoch % {len(names)}, N(epoch))\n"
    else:
        body = f"        for phase in range({len(names)}):\n            perform(epoch, phase, {random.choice(('N(epoch)', 'N2(epoch)'))})\n"
    spec["script"] = functions + f"def main():\n    for epoch in range(E):\n{body}{points.barrier()}"


def leader(random, spec):
    """Even: rank 0 sends what is to be done from several points, and the others receive it at one, in a loop of their own. That has no
    epochs, so its calls are recorded without."""
    points = start(random, spec)
    spec["iterations"] = counts(random, spec, "even", random.randint(1, 5))
    spec["validate"]["counts"] = spec["iterations"]
    points.add("tell", collective="broadcast", operation="sum", root=0)
    points.add("a")
    points.add("b", like="a")
    stop = random.choice(("", "tell()"))
    loop = "while k < total:" if random.random() < 0.5 else "while 1:\n        if k >= total:\n            break"
    spec["script"] = f"""\
def lead():
    for each in range(E):
        for j in range(N(each)):
            tell()
            a()
        tell()
        b()
    {stop or "load()"}
    return 0
def work():
    k = 0
    total = E * (N(0) + 1)
    {loop}
        tell()
        if k % (N(0) + 1) == N(0):
            b()
        else:
            a()
        k += 1
    {stop or "load()"}
    return 0
def main():
    if R() == 0:
        lead()
    else:
        work()
"""


CLASSES = {function.__name__: function for function in (several_models, remainders, in_turn, phase_table, leader)}
ONE_LINE = {"one_line": one_line}
KINDS = {"training": CLASSES, "one_line": ONE_LINE}


def compiler(random):
    return list(random.choice(COMPILERS))
