"""Programs written down as scripts: a small part of Python, of which tree.py's statements are made, for all languages.

    a()                      the point of that name                 load()    the next batch
    one_of("ab", x)          the x-th of these points, by one line: they look alike, and have been added one after the other
    N(e), N2(e)              this rank's iterations of epoch e, in one or the other table        E    epochs
    V(), M()                 the sum of the numbers in the last result, and of how many ranks it is: equal on all that get it
    R(), log(n)              this rank's number; something that it does by itself
    D(a, b, salt)            0 to 1023, from the rank's own data (even programs: from data that all have)
    for i in data(n):        a loop over batches, in the style of the program
    for x in range(n):  while c:  if c: elif c: else:  break  continue  return x  x = y  x += y
    try: except Skip:  raise Skip         one at a time           yield x: in Python alone, `for i in f(x):` goes through it
    def f(epoch, i):         main() is the program. Calls are recorded with the epoch and i that their function has.

Expressions are of whole numbers, with + - * // % and or not and comparisons.
"""

import ast


class Function:
    def __init__(self, name, parameters, body, names, tries):
        self.name, self.parameters, self.body, self.tries = name, parameters, body, tries
        self.locals = sorted(names - set(parameters))

    def has(self, name):
        return name in self.locals or name in self.parameters


def functions(spec):
    """By name, in the order of the script."""
    module = ast.parse(spec["script"])
    return {node.name: _function(spec, node) for node in module.body}


def stands_at(spec, function):
    """The epoch and iteration that a call in this function is recorded with."""
    if not spec["script"]:
        return "epoch, i"
    return ", ".join(name if function.has(name) else "0" for name in ("epoch", "i"))


def _function(spec, node):
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    tries = any(isinstance(each, ast.Try) for each in ast.walk(node))
    return Function(node.name, [each.arg for each in node.args.args], _block(spec, node.body), names, tries)


def _block(spec, nodes):
    made = []
    for node in nodes:
        made += _statement(spec, node)
    return made


def _called(node):
    return node.func.id if isinstance(node, ast.Call) else None


def _expression_statement(spec, value):
    if isinstance(value, ast.Yield):
        return ("yield", value.value)
    name = _called(value)
    if name == "load":
        return ("load",)
    if name == "one_of":
        return ("one of", spec["names"][value.args[0].value[0]], value.args[1])
    if name in spec["names"]:
        return ("call", spec["names"][name])
    return ("invoke", value)


def _loop(spec, node):
    over, arguments = _called(node.iter), node.iter.args
    kind = {"data": "batches", "range": "range"}.get(over)
    if kind is None:
        return ("through", node.target.id, node.iter, _block(spec, node.body))
    return (kind, node.target.id, arguments[0], _block(spec, node.body))


def _statement(spec, node):
    if isinstance(node, ast.Pass):
        return []
    if isinstance(node, ast.Expr):
        return [_expression_statement(spec, node.value)]
    if isinstance(node, ast.Assign):
        return [("assign", node.targets[0].id, node.value)]
    if isinstance(node, ast.AugAssign):
        name = node.target.id
        return [("assign", name, ast.BinOp(left=ast.Name(id=name, ctx=ast.Load()), op=node.op, right=node.value))]
    if isinstance(node, ast.For):
        return [_loop(spec, node)]
    if isinstance(node, ast.While):
        return [("while", node.test, _block(spec, node.body))]
    if isinstance(node, ast.If):
        return [("if", node.test, _block(spec, node.body), _block(spec, node.orelse))]
    if isinstance(node, ast.Try):
        return [("try", _block(spec, node.body), _block(spec, node.handlers[0].body))]
    if isinstance(node, ast.Return):
        return [("return", node.value)]
    return [{ast.Raise: ("raise",), ast.Break: ("break",), ast.Continue: ("continue",)}[type(node)]]


OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Mod: "%", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<",
             ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
IN_C = {ast.FloorDiv: "/", ast.And: "&&", ast.Or: "||", ast.Not: "!"}
IN_PYTHON = {ast.FloorDiv: "//", ast.And: "and", ast.Or: "or", ast.Not: "not "}


def text(node, words, call):
    """An expression. words: IN_C or IN_PYTHON; call: the text of a call, by its name and its arguments' texts."""
    part = lambda each: text(each, words, call)
    sign = lambda operator: OPERATORS.get(type(operator)) or words[type(operator)]
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name):
        return call("E", []) if node.id == "E" else node.id
    if isinstance(node, ast.BinOp):
        return f"({part(node.left)} {sign(node.op)} {part(node.right)})"
    if isinstance(node, ast.UnaryOp):
        return f"{sign(node.op)}({part(node.operand)})"
    if isinstance(node, ast.BoolOp):
        return "(" + f" {sign(node.op)} ".join(part(value) for value in node.values) + ")"
    if isinstance(node, ast.Compare):
        return f"({part(node.left)} {sign(node.ops[0])} {part(node.comparators[0])})"
    return call(node.func.id, [part(argument) for argument in node.args])


def _has_its_names(node):
    """Whether a function's variables get a value anywhere in it."""
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    called = {id(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
    known = {each.arg for each in node.args.args} | {each.id for each in names if isinstance(each.ctx, ast.Store)} | {"E", "Skip"}
    return all(each.id in known or id(each) in called for each in names)


def shorter(source):
    """The script without one of its statements, or one of its blocks, for each of them."""
    lines = source.split("\n")
    depth = lambda line: len(line) - len(line.lstrip())
    made = []
    for at, line in enumerate(lines):
        if not line.strip() or line.strip() == "pass" or line.startswith("def main"):
            continue
        end = at + 1
        while end < len(lines) and (not lines[end].strip() or depth(lines[end]) > depth(line)):
            end += 1
        stripped = line.strip()
        inside = [" " * (depth(line)) + each[depth(lines[at + 1]):] for each in lines[at + 1:end]] if end > at + 1 else []
        for instead in ([" " * depth(line) + "pass"], inside):
            if not instead and not stripped.startswith("def"):
                continue
            candidate = "\n".join(lines[:at] + instead + lines[end:])
            try:
                functions_of = ast.parse(candidate).body
            except SyntaxError:
                continue
            if all(isinstance(each, ast.FunctionDef) and _has_its_names(each) for each in functions_of):
                made.append(candidate)
    return made
