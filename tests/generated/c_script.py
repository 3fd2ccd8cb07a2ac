"""C and C++ of scripts (script.py): the statements and functions that c_source.py's programs do not have."""

import loops
import script


class ScriptSource:
    """What Source has for scripts."""

    ranges = 0  # that have been written
    scope = None  # the function that is being written, of a script

    def expression(self, node):
        return script.text(node, script.IN_C, self._value)

    def _value(self, name, given):
        n = self.n
        tables = {"N": "iterations", "N2": "validation"}
        if name in tables:
            return f"p{n}_{tables[name]}[{given[0]}][c->rank]"
        if name == "E":
            return str(self.spec["epochs"])
        if name == "R":
            return "c->rank"
        if name == "log":
            return f"rank_log(c, {given[0]})"
        if name == "D":
            return f"rank_draw(c, {int(self.spec['own_data'])}, {', '.join(given)})"
        if name in ("V", "M"):
            return {"V": "rank_value(c)", "M": "rank_met(c)"}[name]
        return f"p{n}_{name}({', '.join(['c'] + given)})"

    def _heads(self, function):
        parameters = "".join(f", int {name}" for name in function.parameters)
        out = "OUT " if self.spec["helpers"].get("train") == "out" else ""
        return f"static {out}int p{self.n}_{function.name}(struct rank *c{parameters})"

    def script_functions(self):
        """All but main: declared first, as they may call each other."""
        made = [function for name, function in script.functions(self.spec).items() if name != "main"]
        for function in made:
            self.functions.append(self._heads(function) + ";")
        for function in made:
            outer, depth = self.lines, self.depth
            self.lines, self.depth = [], 0
            self.put(self._heads(function) + " {")
            self.script_locals(function)
            self.block(function.body)
            self.put("  return 0;")
            self.put("}")
            self.functions.append("\n".join(self.lines))
            self.lines, self.depth = outer, depth

    def script_locals(self, function):
        self.scope = function
        names = [f"{name} = 0" for name in function.locals]
        if names:
            self.put(f"  {'volatile ' if function.tries else ''}int {', '.join(names)};")
        if self.spec.get("guarded"):
            self.put(f"  if (rank_known(0) != 0) return{'' if function.name == 'main' else ' 0'};")
        if self.spec.get("kept"):
            self.put(f"  int {', '.join(f'kept{at} = rank_known({at})' for at in range(self.spec['kept']))};")

    def batches(self, name, count, body):
        style = self.spec["loop"]
        if style == "unrolled":
            self.put("_Pragma(\"GCC unroll 3\")")
        if style in loops.IN_C:
            return self.other_loop(style, name, count, body)
        if style == "while":
            self.put(f"{name} = -1;")
            self.put(f"while (++{name} < {count}) {{")
        elif style == "forever":
            self.put(f"for ({name} = 0;; {name}++) {{ if ({name} >= {count}) break;")
        elif style == "iterator":
            self.put(f"for ({name} = -1; ({name} = p{self.n}_after({name}, {count})) >= 0;) {{")
        else:
            self.put(f"for ({name} = 0; {name} < {count}; {name}++) {{")
        self.block(body)
        self.put("}")

    def other_loop(self, style, name, count, body):
        self.names += 1
        begin, end = (text.format(i=name, count=count, id=self.names) for text in loops.IN_C[style])
        self.put(begin)
        self.block(body)
        self.put(end)

    def rounds(self, name, count, body):
        """A range: of programs that draw them (loops.py), the first and the second one of the source have loops of their own."""
        self.names += 1
        ranges = self.spec.get("ranges") or [None]
        self.ranges += 1
        begin, end = loops.RANGES_IN_C.get(ranges[self.ranges % len(ranges)], ("for ({i} = 0; {i} < {count}; {i}++) {{", "}}"))
        self.put("{ " + begin.format(i=name, count=count, id=self.names))
        self.block(body)
        kept = [f"kept{at}" for at in range(self.spec.get("kept", 0))]
        if kept:
            self.put(f"  kept0 += rank_known({' ^ '.join(kept)} ^ {name});")
        self.put(end.format(i=name) + " }")

    def script_statement(self, kind, rest):
        if kind == "assign":
            self.put(f"{rest[0]} = {self.expression(rest[1])};")
        elif kind == "invoke":
            self.put(f"{self.expression(rest[0])};")
        elif kind == "while":
            self.put(f"while ({self.expression(rest[0])}) {{")
            self.block(rest[1])
            self.put("}")
        elif kind == "batches":
            self.batches(rest[0], self.expression(rest[1]), rest[2])
        elif kind == "range":
            self.rounds(rest[0], self.expression(rest[1]), rest[2])
        elif kind == "return":
            value = self.expression(rest[0]) if rest[0] is not None else "0"
            self.put("return;" if self.scope.name == "main" else f"return {value};")
        elif kind == "continue":
            self.put("continue;")
        elif kind == "raise":
            self.put("throw skip();" if self.is_cpp else f"longjmp(p{self.n}_skip, 1);")
        elif kind == "try":
            self.put("try {" if self.is_cpp else f"if (setjmp(p{self.n}_skip) == 0) {{")
            self.block(rest[0])
            self.put("} catch (const skip &) {" if self.is_cpp else "} else {")
            self.block(rest[1])
            self.put("}")


# Messages between ranks, as one function of the program's for each way.
EXCHANGES = {
    "all_to_all": """\
  ncclGroupStart();
  for (int peer = 0; peer < c->axes[axis].size; peer++) {
    ncclSend((char *)c->send + (size_t)peer * bytes, count, type, peer, comm, c->stream);
    ncclRecv((char *)c->receive + (size_t)peer * bytes, count, type, peer, comm, c->stream);
  }
  return ncclGroupEnd();""",
    "ring": """\
  ncclGroupStart();
  ncclSend(c->send, count, type, (me + 1) % size, comm, c->stream);
  ncclRecv(c->receive, count, type, (me + size - 1) % size, comm, c->stream);
  return ncclGroupEnd();""",
    "forward": """\
  ncclResult_t result = ncclSuccess;
  if (me > 0)
    result = ncclRecv(c->receive, count, type, me - 1, comm, c->stream);
  if (me + 1 < size && result == ncclSuccess)
    result = ncclSend(c->send, count, type, me + 1, comm, c->stream);
  return result;""",
    "backward": """\
  ncclResult_t result = ncclSuccess;
  if (me + 1 < size)
    result = ncclRecv(c->receive, count, type, me + 1, comm, c->stream);
  if (me > 0 && result == ncclSuccess)
    result = ncclSend(c->send, count, type, me - 1, comm, c->stream);
  return result;"""}


def exchange(n, collective, inline):
    """A function that does it. inline: where it is called."""
    kind = "INLINE" if inline else "OUT"
    return (f"static {kind} ncclResult_t p{n}_{collective}(struct rank *c, size_t count, ncclDataType_t type, int axis) {{\n"
            "  size_t bytes = count * (type == ncclFloat || type == ncclInt32 ? 4 : 8);\n"
            "  int me = c->axes[axis].me, size = c->axes[axis].size;\n"
            "  ncclComm_t comm = c->comms[axis];\n  (void)bytes, (void)me, (void)size;\n"
            f"{EXCHANGES[collective]}\n}}")
