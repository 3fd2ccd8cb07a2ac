"""Classes of programs whose control flow is the point: how a loop ends, which branches a condition has, what stands in
functions of its own. Each is a script (script.py) with the numbers and points of its seed."""

from script_exchanges import all_to_alls, experts, pipelines, rings
from script_points import begin, second_loop

C_SCRIPT_FORMS = ("plain", "plain", "plain", "wrapper", "pointer", "template")
PYTHON_SCRIPT_FORMS = ("plain", "plain", "wrapper", "decorator")


# ---- where a loop ends ---------------------------------------------------------------------------------------------

def ends_in_else(random, spec):
    """The loop's end is the other branch of its batch's condition."""
    points = begin(random, spec)
    points.add("a")
    points.add("end", like="a")
    spec["script"] = f"""\
def main():
    for epoch in range(E):
        i = 0
        done = 0
        while not done:
            if i < N(epoch):
                load()
                a()
                i += 1
            else:
                end()
                done = 1
{points.barrier()}"""


def ends_in_a_function(random, spec):
    """A step says that there was none, and has issued what comes after the loop."""
    points = begin(random, spec)
    points.add("a")
    points.add("end", like="a")
    spec["script"] = f"""\
def step(epoch, i):
    if i >= N(epoch):
        end()
        return 0
    load()
    a()
    return 1
def main():
    for epoch in range(E):
        i = 0
        while step(epoch, i):
            i += 1
{points.barrier()}"""


def next_that_ends(random, spec):
    """An iterator that issues something at its end, and perhaps with each batch."""
    points = begin(random, spec)
    points.add("s", scalar=random.random() < 0.4)
    points.add("a")
    points.add("end", like=random.choice("sa"))
    each = random.choice(("s()", "load()"))
    if spec["kind"] == "python" and random.random() < 0.6:
        spec["script"] = f"""\
def batches(epoch):
    for i in range(N(epoch)):
        {each}
        yield i
    end()
def main():
    for epoch in range(E):
        for i in batches(epoch):
            a()
{points.barrier()}"""
        return
    spec["script"] = f"""\
def fetch(epoch, i):
    if i >= N(epoch):
        end()
        return 0
    {each}
    return 1
def main():
    for epoch in range(E):
        i = 0
        while fetch(epoch, i):
            a()
            i += 1
{points.barrier()}"""


def ends_by_break(random, spec):
    """The end stands before a break, or in the iteration of the last batch, perhaps with a loop of its own (a validation)."""
    points = begin(random, spec)
    points.add("a")
    points.add("end", like="a")
    bodies = ("end()\n", "for j in data(2):\n                    end()\n")
    if random.random() < 0.5:
        body = """\
        i = 0
        while 1:
            if i >= N(epoch):
                end()
                break
            load()
            a()
            i += 1
"""
    else:
        body = """\
        for i in data(N(epoch)):
            load()
            a()
            if i + 1 == N(epoch):
                """ + random.choice(bodies)
    spec["script"] = f"def main():\n    for epoch in range(E):\n{body}{points.barrier()}"


def states(random, spec):
    """A machine of states in one loop, or epochs that a counter ends."""
    points = begin(random, spec)
    points.add("a")
    if random.random() < 0.3:
        points.add("end")
        spec["script"] = """\
def main():
    epoch = 0
    i = 0
    while epoch < E:
        load()
        a()
        i += 1
        if i >= N(epoch):
            end()
            epoch += 1
            i = 0
"""
        spec["iterations"] = [[max(1, n) for n in row] for row in spec["iterations"]]
        return
    second_loop(random, spec)
    points.add("b")
    points.add("v")
    spec["script"] = """\
def main():
    state = 0
    epoch = 0
    i = 0
    while epoch < E:
        if state == 0:
            if i >= N(epoch):
                state = 1
                i = 0
                continue
            load()
            a()
            i += 1
        elif state == 1:
            if i >= N2(epoch):
                state = 2
                continue
            v()
            i += 1
        else:
            b()
            epoch += 1
            i = 0
            state = 0
"""


def last_batch(random, spec):
    """The last batch, a smaller one, has a call of its own."""
    points = begin(random, spec)
    points.add("a")
    points.add("small", like="a")
    spec["script"] = f"""\
def main():
    for epoch in range(E):
        for i in data(N(epoch)):
            load()
            if i + 1 == N(epoch):
                small()
            else:
                a()
{points.barrier()}"""


def early_stop(random, spec):
    """What all get says that the loop is to end, perhaps in the last iteration."""
    points = begin(random, spec)
    points.add("a")
    points.add("loss", scalar=True, collective="all_reduce")
    every, limit = random.randint(1, 4), random.randint(8, 60)
    stop, after = random.choice((("break", ""), ("stop = 1\n                    break", "        if stop:\n            break\n"),
                                 ("return 0", "")))
    spec["script"] = f"""\
def main():
    stop = 0
    for epoch in range(E):
        for i in data(N(epoch)):
            load()
            a()
            if i % {every} == {every - 1}:
                loss()
                if V() % 1000 >= {limit} * M():
                    {stop}
{after}{points.barrier()}    fin()
"""
    points.add("fin", scalar=True)


# ---- branches, conditions, exceptions ------------------------------------------------------------------------------

def a_condition(random):
    k, m = random.randint(1, 4), random.randint(2, 4)
    return random.choice((f"i < {k}", f"i % {m} == 0", "epoch == 0", "f == 0"))


def threaded_conditions(random, spec):
    """A condition and its opposite, with something between: compilers make two branches of it."""
    points = begin(random, spec, own_data=True)
    condition = a_condition(random)
    points.add("x")
    points.add("a", like="x")
    points.add("y")
    spec["script"] = f"""\
def main():
    for epoch in range(E):
        for i in data(N(epoch)):
            f = D(epoch, i, 7) % 3
            if {condition}:
                x()
            a()
            if not ({condition}):
                {random.choice(("y()", "y()", "load()"))}
{points.barrier()}"""


def some_conditions(random, spec):
    """Calls by conditions of their own, one after the other."""
    points = begin(random, spec, own_data=True)
    body = ""
    for name in "pqrs"[:random.randint(2, 4)]:
        points.add(name)
        condition = random.choice((None, a_condition(random), f"not ({a_condition(random)})"))
        body += f"            if {condition}:\n                {name}()\n" if condition else f"            {name}()\n"
    spec["script"] = f"""\
def main():
    for epoch in range(E):
        for i in data(N(epoch)):
            f = D(epoch, i, 7) % 2
{body}{points.barrier()}"""


def handlers(random, spec):
    """Batches that are bad: an exception, and a collective in its handler. Where that looks like what the exception has
    skipped, one is the other's stand-in: ranks choose by their own data, and meet without nccl-join, too."""
    points = begin(random, spec, own_data=True)
    points.add("a")
    points.add("b")
    handler = random.choice(("b", "c", "pass"))
    if handler == "c":
        points.add("c", like="b")
        same = dict(spec["points"][spec["names"]["c"]]) == dict(spec["points"][spec["names"]["b"]])
        spec["names"]["c"] = spec["names"]["b"] if same else spec["names"]["c"]
    spec["script"] = f"""\
def step(epoch, i):
    {random.choice(("a()", "load()"))}
    if D(epoch, i, 9) % {random.randint(3, 6)} == 0:
        raise Skip
    b()
    return 0
def main():
    for epoch in range(E):
        for i in data(N(epoch)):
            try:
                step(epoch, i)
            except Skip:
                {handler + "()" if handler != "pass" else "load()"}
{points.barrier()}"""


def exceptions_that_end(random, spec):
    """The data end by an exception, and the handler issues something."""
    points = begin(random, spec)
    points.add("a")
    points.add("b", like="a")
    spec["script"] = f"""\
def fetch(epoch, i):
    if i >= N(epoch):
        raise Skip
    load()
    return i
def main():
    for epoch in range(E):
        i = 0
        try:
            while 1:
                fetch(epoch, i)
                a()
                i += 1
        except Skip:
            b()
{points.barrier()}"""


# ---- functions -----------------------------------------------------------------------------------------------------

def recursion(random, spec):
    """A loop or a tree that a function makes by calling itself."""
    points = begin(random, spec, each=8)
    points.add("a")
    points.add("b", scalar=random.random() < 0.4)
    if random.random() < 0.5:
        spec["script"] = f"""\
def train(epoch, i, n):
    if i >= n:
        return 0
    a()
    {random.choice(("b()", "load()"))}
    return train(epoch, i + 1, n)
def main():
    for epoch in range(E):
        train(epoch, 0, N(epoch))
{points.barrier()}"""
        return
    spec["script"] = f"""\
def visit(epoch, i, depth):
    {random.choice(("a()", "load()"))}
    if depth > 0:
        visit(epoch, i, depth - 1)
        {random.choice(("visit(epoch, i, depth - 2)", "load()", "load()"))}
    b()
    return 0
def main():
    for epoch in range(E):
        visit(epoch, 0, {random.choice(("N(epoch) % 4 + 1", "3"))})
        for i in data(N(epoch)):
            {random.choice(("visit(epoch, i, 1)", "a()"))}
{points.barrier()}"""


def hooks(random, spec):
    """What is called back each step, and each epoch, through one function."""
    points = begin(random, spec)
    points.add("a")
    points.add("h")
    points.add("g", scalar=True)
    spec["script"] = f"""\
def on_step(epoch, i):
    if i % {random.randint(1, 3)} == 0:
        h()
    return 0
def on_epoch(epoch, i):
    g()
    return 0
def fire(epoch, i, which):
    if which == 0:
        on_step(epoch, i)
    else:
        on_epoch(epoch, i)
    return 0
def main():
    for epoch in range(E):
        for i in data(N(epoch)):
            load()
            a()
            fire(epoch, i, 0)
        fire(epoch, 0, 1)
"""


def loops_in_loops(random, spec):
    """Loops whose ends depend on each other: two counters at once, an inner loop that takes batches, what is left."""
    points = begin(random, spec)
    second_loop(random, spec)
    points.add("a")
    points.add("b")
    k = random.randint(2, 3)
    body = random.choice((f"""\
        i = 0
        j = 0
        while i < N(epoch) or j < N2(epoch):
            if i < N(epoch):
                a()
                i += 1
            if j < N2(epoch):
                b()
                j += 1
""", f"""\
        i = 0
        while i < N(epoch):
            m = 0
            while m < {k} and i < N(epoch):
                a()
                m += 1
                i += 1
            b()
""", f"""\
        q = 0
        for i in data(N(epoch)):
            a()
            q += 1
            if q >= {k}:
                b()
                q -= 1
        while q > 0:
            b()
            q -= 1
""", f"""\
        q = 0
        for i in data(N(epoch)):
            load()
            q += 1
            if q == {k}:
                a()
                q = 0
        if q > 0:
            {random.choice("ab")}()
""", f"""\
        for i in data(N(epoch)):
            if epoch == 0 and i < {k + 2}:
                b()
            a()
            if epoch > 0 and i == 0:
                b()
"""))
    spec["script"] = f"def main():\n    for epoch in range(E):\n{body}{points.barrier()}"


SCRIPTS = {function.__name__: function for function in (
    ends_in_else, ends_in_a_function, next_that_ends, ends_by_break, states, last_batch, early_stop, threaded_conditions,
    some_conditions, handlers, exceptions_that_end, recursion, hooks, loops_in_loops, experts, all_to_alls, rings, pipelines)}
