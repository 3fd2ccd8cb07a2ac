"""Training scripts of PyTorch made at random: what each does, by its seed, as a dictionary that can be made smaller; and its text.

    how         even, constant, varying or sometimes: the iterations by [epoch][rank]     empty    none, first, later: ranks without any
    models      of each: sizes of its parameters, options of DistributedDataParallel, whether it has buffers, whether a hook of the program's reduces its
                gradients; a batch goes through all
    start       collectives before all epochs                                           handles  whether all-reduces return one, which is waited for
    often       {every, number}: a collective in a loop of three, after every k of the rank's own steps
    accumulate  gradients are reduced in every k-th iteration, and the last            log      {every, number}: after every k of the rank's own steps
    validate    {counts, inside, number}: a loop after training; a collective in each round of it, or one after it
    after       collectives after each epoch                                            checkpoint  every k epochs
    stop        the epoch after which all end                                           numbers  what a collective reduces: [count, dtype]
    apart       numbers: rank 0 comes to one collective after its epochs, and the others to another; for the test of the judge
"""

import pathlib
import random
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "generated"))
import shapes  # noqa: E402

FEATURES = ("accumulate", "log", "often", "validate", "checkpoint", "stop")
OPTIONS = {"find_unused_parameters": True, "gradient_as_bucket_view": True, "static_graph": True, "broadcast_buffers": False}


def numbers(draw, ranks):
    """A scalar often enough: what is reduced beside training is one, mostly."""
    if draw.random() < 0.5:
        return [1, draw.choice(("float64", "int64") if ranks > 2 else ("float32", "float64", "int64"))]
    return [draw.choice((ranks, 8, 40, 100)), draw.choice(("float32", "float64", "int64"))]


def some(draw, ranks, count):
    kinds = draw.choices(("barrier", "all_reduce", "broadcast", "all_gather", "reduce"), (3, 4, 1, 1, 1), k=count)
    return [[kind, *numbers(draw, ranks)] for kind in kinds]


def model(draw):
    options = {name: value for name, value in OPTIONS.items() if draw.random() < 0.2}
    if draw.random() < 0.6:
        options["bucket_cap_mb"] = draw.choice((0.0001, 0.004, 0.02))
    return {"sizes": [draw.choice((8, 40, 500, 3000)) for _ in range(draw.randint(1, 5))], "buffers": draw.random() < 0.3, "hook": draw.random() < 0.15,
            "options": options}


def make(seed):
    draw = random.Random(seed)
    spec = {"seed": seed, "ranks": draw.choice((2, 2, 3, 4)), "epochs": draw.randint(1, 4)}
    spec["how"] = draw.choice(("even", "constant", "varying", "varying", "sometimes"))
    spec["empty"] = draw.choice(("none", "none", "none", "first", "later")) if spec["how"] != "even" else "none"
    base = draw.choice((draw.randint(1, 4), draw.randint(3, 9)))
    spec["iterations"] = shapes.counts(draw, spec, spec["how"], base, spec["empty"])
    spec["models"] = [model(draw) for _ in range(draw.choice((1, 1, 1, 2)))]
    spec.update(dict.fromkeys(FEATURES))
    if draw.random() < 0.25:
        spec["accumulate"] = draw.choice((2, 3))
        for one in spec["models"]:
            one["options"].pop("static_graph", None)  # PyTorch learns the graph in the first iteration, and refuses one without a reduction
    if draw.random() < 0.35:
        spec["log"] = {"every": draw.choice((2, 3, 5)), "number": numbers(draw, spec["ranks"])}
    if draw.random() < 0.15:
        spec["often"] = {"every": draw.choice((2, 4)), "number": numbers(draw, spec["ranks"])}
    if draw.random() < 0.4:
        how = "even" if spec["how"] == "even" else draw.choice(("even", "constant", "varying"))
        spec["validate"] = {"counts": shapes.counts(draw, spec, how, draw.randint(1, 5)), "inside": draw.random() < 0.6,
                            "number": numbers(draw, spec["ranks"])}
    spec["start"] = some(draw, spec["ranks"], draw.randint(0, 1))
    spec["after"] = some(draw, spec["ranks"], draw.randint(0, 2))
    if draw.random() < 0.2:
        spec["checkpoint"] = 2
    if draw.random() < 0.15:
        spec["stop"] = draw.randrange(spec["epochs"])
    spec["parts"] = draw.choice(("in place", "functions", "class"))
    spec["loop"] = draw.choice(("range", "generator", "iterator", "while"))
    spec["helper"], spec["handles"] = draw.random() < 0.3, draw.random() < 0.2
    spec["sync"] = draw.choice(("call", "iteration", "epoch"))
    spec["asynchronous"] = draw.random() < 0.3
    spec["destroy"], spec["apart"] = draw.random() < 0.7, None
    if draw.random() < 0.4:
        make_alike(spec, numbers(draw, spec["ranks"]))
    return spec


def make_alike(spec, number):
    """All collectives beside the gradients reduce the same."""
    for feature in ("log", "often", "validate"):
        if spec[feature]:
            spec[feature]["number"] = number
    for name in ("start", "after"):
        spec[name] = [[kind, *number] for kind, *_ in spec[name]]


def is_even(spec):
    tables = [spec["iterations"]] + ([spec["validate"]["counts"]] if spec["validate"] else [])
    return all(len(set(row)) == 1 for table in tables for row in table)


def has_ends(spec):
    """Whether all ranks come together between two epochs."""
    return bool(spec["after"] or spec["validate"] and not spec["validate"]["inside"])


class Source:
    def __init__(self, spec):
        self.spec, self.lines, self.depth, self.points = spec, [], 0, 0
        self.me = "self." if spec["parts"] == "class" else ""

    def put(self, text):
        self.lines.append("    " * self.depth + text)

    def point(self):
        self.points += 1
        return self.points

    def collective(self, kind, number, where):
        """One, between the numbers that it reduces and the record of who has met."""
        if kind == "barrier":
            self.put("dist.barrier()")
            return
        count, dtype = number
        self.put(f"numbers = me.numbers({self.point()}, {where}, {count}, '{dtype}')")
        if kind == "broadcast":
            self.put("dist.broadcast(numbers, 0)")
        elif kind == "reduce":
            self.put("dist.reduce(numbers, 0)")
            self.put("numbers = numbers if me.rank == 0 else None")
        elif kind == "all_gather":
            self.put("parts = [torch.empty_like(numbers) for _ in range(me.world)]")
            self.put("dist.all_gather(parts, numbers)")
            self.put("numbers = sum(parts)")
        elif self.spec["helper"]:
            self.put("reduce_sum(numbers)")
        elif self.spec["handles"]:
            self.put("dist.all_reduce(numbers, async_op=True).wait()")
        else:
            self.put("dist.all_reduce(numbers)")
        self.put("me.met(numbers)")

    def loop(self, table):
        count = f"{table}[epoch][me.rank]"
        if self.spec["loop"] == "while":
            self.put("i = -1")
            self.put(f"while i + 1 < {count}:")
            self.put("    i += 1")
        else:
            text = {"range": f"range({count})", "generator": f"batches({count})", "iterator": f"Loader({count})"}[self.spec["loop"]]
            self.put(f"for i in {text}:")
        self.depth += 1

    def backward(self, number):
        point, k = self.point(), self.spec["accumulate"]
        name = f"models[{number}]"
        if k:
            self.put(f"if (i + 1) % {k} != 0 and i + 1 < ITERATIONS[epoch][me.rank]:")
            self.put(f"    with {name}.no_sync():")
            self.put(f"        {name}(me.batch({point}, epoch, i, False)).backward()")
            self.put("else:")
            self.depth += 1
        self.put(f"{name}(me.batch({point}, epoch, i)).backward()")
        self.put(f"me.gradients({name})")
        self.put(f"{name}.zero_grad()")
        self.depth -= 1 if k else 0

    def train(self):
        self.loop("ITERATIONS")
        for number in range(len(self.spec["models"])):
            self.backward(number)
        self.put("me.step()")
        if self.spec["log"]:
            self.put(f"if me.steps % {self.spec['log']['every']} == 0:")
            self.depth += 1
            self.collective("all_reduce", self.spec["log"]["number"], "epoch, i")
            self.depth -= 1
        if self.spec["often"]:
            self.put(f"if me.steps % {self.spec['often']['every']} == 0:")
            self.put("    for _ in range(3):")
            self.depth += 2
            self.collective("all_reduce", self.spec["often"]["number"], "epoch, i")
            self.depth -= 2
        self.depth -= 1

    def validate(self):
        inside = self.spec["validate"]["inside"]
        if inside:
            self.loop("VALIDATION")
        self.collective("all_reduce", self.spec["validate"]["number"], "epoch, i" if inside else "epoch, 0")
        self.depth -= 1 if inside else 0

    def checkpoint(self):
        self.put("dist.barrier()")
        self.put("if me.rank == 0:")
        self.put("    state = {name: value.cpu() for name, value in models[0].state_dict().items()}")
        self.put("dist.barrier()")

    def part(self, name):
        """A part of an epoch, or the call of a function of it."""
        if self.spec["parts"] == "in place":
            getattr(self, name)()
        else:
            self.put(f"{self.me}{name}(epoch)")

    def epochs(self):
        spec = self.spec
        for kind, *number in spec["start"]:
            self.collective(kind, number, "0, 0")
        self.put(f"for epoch in range({spec['epochs']}):")
        self.depth += 1
        self.part("train")
        if spec["sync"] == "epoch":
            self.put("me.read()")
        if spec["validate"]:
            self.part("validate")
        for kind, *number in spec["after"]:
            self.collective(kind, number, "epoch, 0")
        if spec["checkpoint"]:
            self.put(f"if (epoch + 1) % {spec['checkpoint']} == 0:")
            self.depth += 1
            self.part("checkpoint")
            self.depth -= 1
        if spec["stop"] is not None:
            self.collective("all_reduce", [spec["ranks"], "int64"], "epoch, 0")
            self.put(f"if epoch == {spec['stop']}:")
            self.put("    break")
        self.depth -= 1

    def functions(self):
        own = "self, " if self.me else ""
        for name in ("train", "validate", "checkpoint"):
            if name == "train" or self.spec[name]:
                self.put(f"def {name}({own}epoch):")
                self.depth += 1
                getattr(self, name)()
                self.depth -= 1

    def text(self):
        spec = self.spec
        self.put(f"# {spec['seed']}: {spec['how']}, {spec['ranks']} ranks")
        self.put("import os, sys")
        self.put("sys.path.append(os.environ['RANDOM_RANK'])")
        self.put("from random_rank import *")
        self.put(f"ITERATIONS = {spec['iterations']}")
        if spec["validate"]:
            self.put(f"VALIDATION = {spec['validate']['counts']}")
        self.put(f"me = Rank('{spec['sync']}')")
        models = [f"me.model({one['sizes']}, {one['buffers']}, {one['hook']}, **{one['options']})" for one in spec["models"]]
        self.put(f"models = [{', '.join(models)}]")
        if spec["helper"]:
            self.put("def reduce_sum(numbers):")
            self.put("    dist.all_reduce(numbers)")
        if spec["parts"] == "class":
            self.put("class Trainer:")
            self.depth += 1
            self.functions()
            self.put("def run(self):")
            self.depth += 1
            self.epochs()
            self.depth = 0
            self.put("Trainer().run()")
        else:
            if spec["parts"] == "functions":
                self.functions()
            self.epochs()
        if spec["apart"]:
            self.put("epoch = 0")
            for condition in ("if me.rank == 0:", "else:"):
                self.put(condition)
                self.depth += 1
                self.collective("all_reduce", spec["apart"], "epoch, 0")
                self.depth -= 1
        self.put(f"me.end({spec['destroy']})")
        return "\n".join(self.lines) + "\n"


def source(spec):
    return Source(spec).text()
