"""Python of a program (tree.py), in several forms of calling NCCL through ctypes:

    plain       each call on its line         wrapper        all by one function of the program's
    generator   parts are generators          comprehension  loops are list comprehensions over a local function
    class       parts are methods             decorator      parts are decorated functions
    async       parts are coroutines, which let others run between calls
"""

import ast

import loops
import python_script
import script
import tree
from c_script import EXCHANGES
from c_source import DATATYPE, FUNCTION, OPERATION

FORMS = ("plain", "plain", "plain", "wrapper", "generator", "comprehension", "class", "decorator", "async")


# n: number of the program.
CONDITIONS = {
    "rank0": "c.rank == 0", "odd": "c.rank % 2 == 1", "data": "c.data(epoch, i, {0})",
    "steps": "c.step % {0} == 0", "step is": "c.step == {0}", "accumulated": "(i + 1) % {0} == 0",
    "epoch is": "epoch == {0}", "epoch from": "epoch >= {0}", "epochs": "(epoch + 1) % {0} == 0",
    "torn": "TORN{n}[epoch][c.rank] and i + 1 == ITERATIONS{n}[epoch][c.rank]",
    "any iterations": "ITERATIONS{n}[epoch][c.rank] > 0", "rest iterations": "ITERATIONS{n}[epoch][c.rank] % 2 == 1",
    "rest validation": "VALIDATION{n}[epoch][c.rank] % 2 == 1", "stopped": "epoch == OWN_STOP{n}[0][c.rank]"}


def leaves(body):
    """Whether a break in it belongs to the loop around it."""
    return any(s[0] == "break" or s[0] == "if" and (leaves(s[2]) or leaves(s[3])) for s in body)


class Source(python_script.ScriptSource):
    def __init__(self, spec, number):
        self.spec, self.n, self.form = spec, number, spec["form"]
        self.functions, self.lines, self.depth, self.names = [], [], 1, 0
        self.me = "self." if self.form == "class" else ""

    def put(self, text):
        self.lines.append("    " * self.depth + text)

    def block(self, statements):
        self.depth += 1
        for statement in statements:
            self.statement(statement)
        if not statements:
            self.put("pass")
        self.depth -= 1

    def between_calls(self):
        if self.form == "generator":
            self.put("yield")
        if self.form == "async":
            self.put("await pause()")

    def arguments(self, point, number=None):
        if number is None:
            values = [str(point["count"]), DATATYPE[point["datatype"]][0]]
            operation, root, comm = OPERATION[point["operation"]], str(point["root"]), f"c.comms[{point['axis']}]"
        else:
            values = [f"P{self.n}[{number}].count", f"P{self.n}[{number}].datatype"]
            operation, root = f"P{self.n}[{number}].operation", f"P{self.n}[{number}].root"
            comm = f"c.comms[P{self.n}[{number}].axis]"
        values += {"all_reduce": [operation], "reduce_scatter": [operation], "broadcast": [root],
                   "reduce": [operation, root]}[point["collective"]]
        return ", ".join(["c.send, c.receive"] + values + [comm, "c.stream"])

    def call(self, number, behind=None):
        """behind: how many points behind that one this is, as text; None: it is that one."""
        point = self.spec["points"][number]
        which = number if behind is None else f"{number} + {behind}"
        if self.form == "wrapper":
            self.put(f"p{self.n}_collective(c, {which}, {script.stands_at(self.spec, self.scope)})")
            return
        self.put(f"c.before({which}, {script.stands_at(self.spec, self.scope)})")
        if point["collective"] in EXCHANGES:
            self.put(f"c.after({point['collective']}(c, P{self.n}[{number}]))")
            return
        self.put(f"c.after(nccl.nccl{FUNCTION[point['collective']]}({self.arguments(point)}))")
        self.between_calls()

    def layers(self, points):
        calls = [(point, f"nccl.nccl{FUNCTION[self.spec['points'][point]['collective']]}") for point in points]
        if self.form == "wrapper":
            self.put(f"for number in {list(points)}:")
            self.put(f"    p{self.n}_collective(c, number, epoch, i)")
        elif self.form == "comprehension":
            self.put(f"[c.after(c.begun(number, epoch, i, P{self.n})(*c.arguments)) for number in {list(points)}]")
        else:
            table = ", ".join(f"({point}, {function})" for point, function in calls)
            self.put(f"for number, function in ({table}):")
            self.put(f"    c.begun(number, epoch, i, P{self.n})")
            self.put("    c.after(function(*c.arguments))")
            self.depth += 1
            self.between_calls()
            self.depth -= 1

    def condition(self, condition):
        if isinstance(condition, ast.AST):
            return self.expression(condition)
        return CONDITIONS[condition[0]].format(*condition[1:], n=self.n)

    def loop(self, count, body):
        style = self.spec["loop"]
        if self.form == "comprehension" and not leaves(body):
            self.names += 1
            step = f"step{self.names}"
            self.put(f"def {step}(i):")
            self.block(body)
            self.put(f"[{step}(i) for i in range({count})]")
            return
        if self.form == "async" and style == "iterator":
            self.put(f"async for i in async_batches({count}):")
        elif style in loops.IN_PYTHON:
            return self.other_loop(style, "i", count, body)
        elif style == "while":
            self.put("i = -1")
            self.put(f"while i + 1 < {count}:")
            self.put("    i += 1")
        elif style == "forever":
            self.put(f"batches = iter(range({count}))")
            self.put("while True:")
            self.put("    try:")
            self.put("        i = next(batches)")
            self.put("    except StopIteration:")
            self.put("        break")
        elif style == "iterator":
            self.put(f"for i in batches_of({count}):")
        else:
            self.put(f"for i in range({count}):")
        self.block(body)

    def part(self, name, body):
        outer, depth = self.lines, self.depth
        self.lines, self.depth = [], 1 if self.form == "class" else 0
        self.names += 1
        function = f"p{self.n}_{name}{self.names}"
        if self.form == "decorator":
            self.put("@timed")
        start = "async def" if self.form == "async" else "def"
        self.put(f"{start} {function}({'self, ' if self.form == 'class' else ''}c, epoch, i):")
        self.block(body)
        if self.form == "generator":
            self.put("    yield")
        self.functions.append("\n".join(self.lines))
        self.lines, self.depth = outer, depth
        given = f"{self.me}{function}(c, epoch, i)"
        if self.form == "generator":
            self.put(f"for _ in {given}:")
            self.put("    yield")
        else:
            self.put(("await " if self.form == "async" else "") + given)

    def statement(self, statement):
        kind, rest = statement[0], statement[1:]
        if kind == "call":
            self.call(*rest)
        elif kind == "one of":
            self.call(rest[0], self.expression(rest[1]))
        elif kind == "load":
            self.put("c.load()")
        elif kind == "sync":
            self.put("c.synchronise()")
        elif kind == "layers":
            self.layers(*rest)
        elif kind == "iterations":
            self.loop(f"{rest[0].upper()}{self.n}[epoch][c.rank]", rest[1])
        elif kind == "repeat":
            self.loop(str(rest[0]), rest[1])
        elif kind == "epochs":
            self.put(f"for epoch in range({rest[0]}):")
            self.block(rest[1])
        elif kind == "if":
            condition, then, otherwise = rest
            self.put(f"if {self.condition(condition)}:")
            self.block(then)
            if otherwise:
                self.put("else:")
                self.block(otherwise)
        elif kind == "part":
            self.part(rest[0], rest[2])
        elif kind == "break":
            self.put("break")
        else:
            self.script_statement(kind, rest)

    def wrapper(self):
        self.put(f"def p{self.n}_collective(c, number, epoch, i):")
        self.put("    c.before(number, epoch, i)")
        for collective in sorted({point["collective"] for point in self.spec["points"]}):
            self.put(f"    if P{self.n}[number].collective == '{collective}':")
            if collective in EXCHANGES:
                self.put(f"        c.after({collective}(c, P{self.n}[number]))")
                continue
            given = self.arguments({"collective": collective}, "number")
            self.put(f"        c.after(nccl.nccl{FUNCTION[collective]}({given}))")

    def text(self):
        spec, n = self.spec, self.n
        rows = ", ".join(f"Point('{p['collective']}', {p['count']}, {DATATYPE[p['datatype']][0]}, "
                         f"{OPERATION[p['operation']]}, {p['root']}, {p['axis']})" for p in spec["points"])
        head = [f"# {spec['kind']} {spec['seed']}: {spec['class']}, {spec['form']}", f"P{n} = [{rows}]"]
        head += [f"{name.upper()}{n} = {table}" for name, table in tree.tables(spec).items()]
        self.depth = 0
        if self.form == "wrapper":
            self.wrapper()
            head += self.lines
            self.lines = []
        if spec["script"]:
            self.script_functions()
        self.depth = 1 if self.form == "class" else 0
        start = "async def" if self.form == "async" else "def"
        self.put(f"{start} p{n}_all({'self, ' if self.form == 'class' else ''}c):")
        self.put("    epoch = i = 0")
        self.block(tree.tree(spec))
        if self.form == "generator":
            self.put("    yield")
        run = {"generator": f"    for _ in p{n}_all(c):\n        pass", "async": f"    asyncio.run(p{n}_all(c))",
               "class": f"    Trainer{n}().p{n}_all(c)"}.get(self.form, f"    p{n}_all(c)")
        parts = self.functions + ["\n".join(self.lines)]
        if self.form == "class":
            parts = [f"class Trainer{n}:"] + parts
        return "\n".join(head + parts + [f"def p{n}_run(c):", run])


HEAD = """\
import asyncio
from python_runner import *
"""


def setup(spec, number):
    ending = {"destroy": 0, "finalize": 1}.get(spec["ending"], 3)  # as in rank.h; the interpreter's own exit, for both others
    values = [spec["ranks"], spec["tensor"], ("one", "two", "grid").index(spec["arrangement"]), spec["split"],
              int(spec["sync"] != "call"), ending]
    return f"(p{number}_run, {tuple(values)}, {spec['pauses'][:6]}, P{number})"


def source(specs):
    parts = [HEAD] + [Source(spec, number).text() for number, spec in enumerate(specs)]
    parts.append("PROGRAMS = [\n    " + ",\n    ".join(setup(spec, number) for number, spec in enumerate(specs)) + "]")
    return "\n\n".join(parts) + "\n"
