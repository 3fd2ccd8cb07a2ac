"""The statements of a program, from its dictionary (shapes.py): one tree, of which c_source.py and python_source.py make code.

    ("call", point)                 a collective, on a line of its own
    ("one of", first, expression)   this many points behind the first, by the line of that one
    ("load",)                       the next batch
    ("sync",)                       waits for the stream
    ("layers", points)              a loop over collectives, all of them called by one line
    ("iterations", table, body)     a loop of table[epoch][rank] iterations
    ("repeat", count, body)         a loop of as many iterations on all ranks
    ("epochs", count, body)
    ("if", condition, then, else)   conditions: see below
    ("part", name, how, body)       a function of its own: out, inline, or none: in place
    ("break",)                      out of the innermost loop; never across a part
    and those of scripts            (script.py), with expressions of Python's as conditions

    conditions: ("rank0",) ("odd",) ("data", salt) ("steps", k): after k of the own iterations, ("step is", n),
    ("accumulated", k), ("epoch is", e), ("epoch from", e), ("epochs", k): after k epochs, ("torn",), ("stopped",),
    ("any iterations",): the rank has one in this epoch, ("rest iterations",): an odd number, ("rest validation",)
"""

import script


def call(spec, point):
    how = spec["branches"].get(str(point))
    if how is None:
        return ("call", point)
    condition = {"rank0": ("rank0",), "odd": ("odd",), "data": ("data", point)}[how]
    return ("if", condition, [("call", point)], [("call", point)])


def calls(spec, points):
    return [call(spec, point) for point in points]


def part(spec, name, body):
    how = spec["helpers"].get(name, "none")
    return body if how == "none" or not body else [("part", name, how, body)]


def loop_body(spec):
    points = spec["body"]
    made = []
    first, last = spec["layers"] or (0, 0)
    at = 0
    while at < len(points):
        if at == first and last - first >= 2 and last <= len(points):
            made.append(("layers", points[first:last]))
            at = last
            continue
        if spec["torn"] and at == spec["torn"]["after"]:
            made.append(("if", ("torn",), [("break",)], []))
        made.append(call(spec, points[at]))
        at += 1
    if spec.get("mixed"):
        made.append(("if", ("rank0",), *([("call", point)] for point in spec["mixed"])))
    if spec["unfreeze"]:
        made.append(("if", ("epoch from", spec["unfreeze"]["epoch"]), calls(spec, spec["unfreeze"]["points"]), []))
    if spec["rebuilt"]:
        first_step = 1 + (spec["warm"]["count"] if spec["warm"] else 0)
        made = [("if", ("step is", first_step), calls(spec, spec["rebuilt"]), made)]
    if spec["accumulate"]:
        made = calls(spec, spec["accumulate"]["points"]) + [("if", ("accumulated", spec["accumulate"]["every"]), made, [])]
    return made if spec["torn"] else part(spec, "step", made)


def training(spec):
    body = [("load",)] + loop_body(spec)
    if spec["sync"] == "iteration":
        body.append(("sync",))
    if spec["log"]:
        body.append(("if", ("steps", spec["log"]["every"]), calls(spec, [spec["log"]["point"]]), []))
    loop = [("iterations", "iterations", body)]
    if spec["begins"]:
        loop = [("if", ("any iterations",), calls(spec, [spec["begins"]["point"]]) + loop, [])]
    loop = part(spec, "train", loop)
    return [("if", (spec["two_loops"],), loop, loop)] if spec["two_loops"] else loop


def front(spec, loop):
    """What some ranks come to in front of a loop."""
    if not spec["front"] or spec["front"]["loop"] != loop:
        return []
    condition = {"rank0": ("rank0",), "rest": (f"rest {loop}",)}[spec["front"]["who"]]
    return [("if", condition, calls(spec, [spec["front"]["point"]]), [])]


def epoch_body(spec):
    body = front(spec, "iterations") + training(spec)
    if spec["sync"] != "call":
        body.append(("sync",))
    if spec["validate"]:
        body += front(spec, "validation") + part(spec, "validate", [("iterations", "validation", calls(spec, spec["validate"]["points"]))])
    body += calls(spec, spec["after"])
    if spec["checkpoint"]:
        inner = part(spec, "checkpoint", calls(spec, spec["checkpoint"]["points"]))
        body.append(("if", ("epochs", spec["checkpoint"]["every"]), inner, []))
    if spec["first"]:
        point = spec["first"]["point"]
        body.append(("if", ("rank0",), [("call", point)], []))
        body.append(("load",))
        body.append(("if", ("rank0",), [], [("call", point)]))
    return part(spec, "epoch", body)


def tree(spec):
    if spec["script"]:
        return script.functions(spec)["main"].body
    made = calls(spec, spec["start"])
    if spec["warm"]:
        made.append(("repeat", spec["warm"]["count"], [("load",)] + calls(spec, spec["warm"]["points"])))
    body = epoch_body(spec)
    if spec["stop"]:
        then = calls(spec, [spec["stop"]["point"]]) + [("break",)]
        body = body + [("if", ("epoch is", spec["stop"]["epoch"]), then, [])]
    if spec["own_stop"]:
        body = [("if", ("stopped",), [("break",)], [])] + body
    made.append(("epochs", spec["epochs"], body))
    return made + calls(spec, spec["end"])


def tables(spec):
    """What the code looks up by [epoch][rank]."""
    made = {"iterations": spec["iterations"]}
    if spec["validate"]:
        made["validation"] = spec["validate"]["counts"]
    if spec["torn"]:
        made["torn"] = spec["torn"]["ranks"]
    if spec["own_stop"]:
        made["own_stop"] = [spec["own_stop"]]
    return made
