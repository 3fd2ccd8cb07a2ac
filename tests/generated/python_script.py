"""Python of scripts (script.py): the statements and functions that python_source.py's programs do not have."""

import loops
import script


class ScriptSource:
    """What Source has for scripts."""

    scope = None  # the function that is being written, of a script

    def expression(self, node):
        return script.text(node, script.IN_PYTHON, self._value)

    def _value(self, name, given):
        tables = {"N": "ITERATIONS", "N2": "VALIDATION"}
        if name in tables:
            return f"{tables[name]}{self.n}[{given[0]}][c.rank]"
        if name == "E":
            return str(self.spec["epochs"])
        if name == "R":
            return "c.rank"
        if name == "D":
            return f"c.draw({int(self.spec['own_data'])}, {', '.join(given)})"
        if name in ("V", "M"):
            return {"V": "c.value()", "M": "c.met()"}[name]
        return f"p{self.n}_{name}({', '.join(['c'] + given)})"

    def script_functions(self):
        for name, function in script.functions(self.spec).items():
            if name == "main":
                continue
            self.scope, self.depth = function, 0
            if self.form == "decorator":
                self.put("@timed")
            self.put(f"def p{self.n}_{name}({', '.join(['c'] + function.parameters)}):")
            if function.locals:  # a loop of no round sets none
                self.put(f"    {' = '.join(function.locals)} = 0")
            self.block(function.body)
            self.functions.append("\n".join(self.lines))
            self.lines = []
        self.scope = script.functions(self.spec)["main"]

    def batches(self, name, count, body):
        style = self.spec["loop"]
        if style in loops.IN_PYTHON:
            return self.other_loop(style, name, count, body)
        if style == "while":
            self.put(f"{name} = -1")
            self.put(f"while {name} + 1 < {count}:")
            self.put(f"    {name} += 1")
        elif style == "forever":
            self.put(f"{name} = -1")
            self.put("while True:")
            self.put(f"    {name} += 1")
            self.put(f"    if {name} >= {count}:")
            self.put("        break")
        elif style == "iterator":
            self.put(f"for {name} in batches_of({count}):")
        else:
            self.put(f"for {name} in range({count}):")
        self.block(body)

    def other_loop(self, style, name, count, body):
        self.names += 1
        for text in loops.IN_PYTHON[style]:
            self.put(text.format(i=name, count=count, id=self.names))
        self.block(body)

    def script_statement(self, kind, rest):
        if kind == "assign":
            self.put(f"{rest[0]} = {self.expression(rest[1])}")
        elif kind == "invoke":
            self.put(self.expression(rest[0]))
        elif kind == "while":
            self.put(f"while {self.expression(rest[0])}:")
            self.block(rest[1])
        elif kind == "batches":
            self.batches(rest[0], self.expression(rest[1]), rest[2])
        elif kind == "range":
            self.put(f"for {rest[0]} in range({self.expression(rest[1])}):")
            self.block(rest[2])
        elif kind == "through":
            self.put(f"for {rest[0]} in {self.expression(rest[1])}:")
            self.block(rest[2])
        elif kind == "yield":
            self.put(f"yield {self.expression(rest[0])}")
        elif kind == "return":
            self.put(f"return {self.expression(rest[0])}" if rest[0] is not None else "return")
        elif kind in ("continue", "break"):
            self.put(kind)
        elif kind == "raise":
            self.put("raise Skip")
        elif kind == "try":
            self.put("try:")
            self.block(rest[0])
            self.put("except Skip:")
            self.block(rest[1])
