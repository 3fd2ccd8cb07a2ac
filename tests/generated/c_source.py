"""C and C++ of a program (tree.py), in several forms of calling NCCL:

    plain      each call on its line          wrapper     all through the same functions of the program's, 1 to 7 deep
    pointer    through function pointers      jump        loops are left by longjmp
    template   through C++ templates          coroutine   the program is a C++20 coroutine that is suspended between calls
    lambda     each part is a C++ lambda, called through std::function

and of those whose calls a compiler may copy (optimised.py), so that nothing tells two calls apart but where they stand:

    bare       as plain                       shared      all of one signature through one function
    no_arguments, which is as shared, and that function is given nothing
"""

import ast

import c_script
import loops
import script
import tree

C_FORMS = ("plain", "wrapper", "pointer", "jump")
CPP_FORMS = ("template", "coroutine", "lambda")
FORMS = ("plain", "plain", "plain", "wrapper", "pointer", "jump", "template", "coroutine", "lambda")

DATATYPE = {"float32": ("ncclFloat", "float"), "float64": ("ncclDouble", "double"), "int64": ("ncclInt64", "int64_t"),
            "int32": ("ncclInt32", "int32_t")}
OPERATION = {"sum": "ncclSum", "avg": "ncclAvg", "max": "ncclMax"}
ENUM = {"all_reduce": "ALL_REDUCE", "reduce_scatter": "REDUCE_SCATTER", "broadcast": "BROADCAST", "reduce": "REDUCE",
        "all_to_all": "ALL_TO_ALL", "ring": "RING", "forward": "FORWARD", "backward": "BACKWARD"}
FUNCTION = {"all_reduce": "AllReduce", "reduce_scatter": "ReduceScatter", "broadcast": "Broadcast", "reduce": "Reduce"}

# n: number of the program.
CONDITIONS = {
    "rank0": "rank0", "odd": "c->rank % 2 == 1", "data": "rank_data(c, epoch, i, {0})",
    "steps": "c->step % {0} == 0", "step is": "c->step == {0}", "accumulated": "(i + 1) % {0} == 0",
    "epoch is": "epoch == {0}", "epoch from": "epoch >= {0}", "epochs": "(epoch + 1) % {0} == 0",
    "torn": "p{n}_torn[epoch][c->rank] && i + 1 == p{n}_iterations[epoch][c->rank]",
    "any iterations": "p{n}_iterations[epoch][c->rank] > 0", "rest iterations": "p{n}_iterations[epoch][c->rank] % 2 == 1",
    "rest validation": "p{n}_validation[epoch][c->rank] % 2 == 1", "stopped": "epoch == p{n}_own_stop[0][c->rank]"}

HEAD = """\
#include "tests/generated/runner.h"
#include <setjmp.h>
#include <stddef.h>
#define OUT __attribute__((noinline))
#define INLINE inline __attribute__((always_inline))
#define rank0 (c->rank == 0)
"""

CPP_HEAD = """\
#include <coroutine>
#include <functional>
#include <new>
#include <exception>
struct skip {};
struct task {
  struct promise_type {
    task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};
template <typename T> struct datatype_of;
template <> struct datatype_of<float> { static constexpr ncclDataType_t value = ncclFloat; };
template <> struct datatype_of<double> { static constexpr ncclDataType_t value = ncclDouble; };
template <> struct datatype_of<int64_t> { static constexpr ncclDataType_t value = ncclInt64; };
template <> struct datatype_of<int32_t> { static constexpr ncclDataType_t value = ncclInt32; };
template <typename T> OUT ncclResult_t collective(struct rank *c, const struct point &p) {
  void *send = c->send, *receive = c->receive;
  constexpr ncclDataType_t type = datatype_of<T>::value;
  ncclComm_t comm = c->comms[p.axis];
  switch (p.collective) {
  case ALL_REDUCE: return ncclAllReduce(send, receive, p.count, type, p.operation, comm, c->stream);
  case REDUCE_SCATTER: return ncclReduceScatter(send, receive, p.count, type, p.operation, comm, c->stream);
  case BROADCAST: return ncclBroadcast(send, receive, p.count, type, p.root, comm, c->stream);
  default: return ncclReduce(send, receive, p.count, type, p.operation, p.root, comm, c->stream);
  }
}
"""


def arguments(point, count, datatype, operation, root, comm):
    middle = {"all_reduce": [operation], "reduce_scatter": [operation], "broadcast": [root],
              "reduce": [operation, root]}.get(point["collective"], [])
    return ", ".join(["c->send", "c->receive", str(count), datatype] + middle + [comm, "c->stream"])


class Source(c_script.ScriptSource):
    """The text of one program, number n of its file."""

    def __init__(self, spec, number):
        self.spec, self.n, self.form = spec, number, spec["form"]
        self.is_cpp = self.form in CPP_FORMS
        self.functions, self.lines, self.depth, self.names = [], [], 1, 0

    def put(self, text):
        self.lines.append("  " * self.depth + text)

    def block(self, statements):
        self.depth += 1
        for statement in statements:
            self.statement(statement)
        self.depth -= 1

    # ---- calls ----

    def call(self, number, behind=None):
        self.one_call(number, behind)
        if self.spec["script"] and not self.spec["merged"]:
            self.put(f'__asm__ volatile("# point {number}");')
        if self.spec.get("checked"):
            value = "" if self.scope is None or self.scope.name == "main" else " 1"
            self.put(f"if (c->record->error != 0) return{value};")

    def one_call(self, number, behind):
        """behind: how many points behind that one this is, as text; None: it is that one."""
        point = self.spec["points"][number]
        which = str(number) if behind is None else f"{number} + {behind}"
        name = "nccl" + FUNCTION.get(point["collective"], "")
        datatype, c_type = DATATYPE[point["datatype"]]
        given = arguments(point, point["count"], datatype, OPERATION[point["operation"]], str(point["root"]),
                          f"c->comms[{point['axis']}]")
        if self.form == "wrapper":
            self.put(f"p{self.n}_collective(c, {which}, {script.stands_at(self.spec, self.scope)});")
            return
        if self.form in ("bare", "shared", "no_arguments"):
            epoch, iteration = script.stands_at(self.spec, self.scope).split(", ")
            self.put(f"c->next.point = {which}, c->next.epoch = {epoch}, c->next.iteration = {iteration};")
            if self.form != "bare":
                given = "c" if self.form == "shared" else ""
                self.put(f"p{self.n}_shared{self.spec['points'].index(point)}({given});")
                return
            self.put("rank_begin(c);")
            self.put(f"rank_after(c, {name}({given}));")
            return
        self.put(f"rank_before(c, {which}, {script.stands_at(self.spec, self.scope)});")
        if point["collective"] in c_script.EXCHANGES:
            self.put(f"rank_after(c, p{self.n}_{point['collective']}(c, {point['count']}, {datatype}, {point['axis']}));")
        elif self.form == "pointer":
            self.put(f"rank_after(c, p{self.n}_{name}({given}));")
        elif self.form == "template":
            self.put(f"rank_after(c, collective<{c_type}>(c, p{self.n}_points[{number}]));")
        else:
            self.put(f"rank_after(c, {name}({given}));")
        if self.form == "coroutine":
            self.put("co_await std::suspend_always{};")

    def shared(self, number, point):
        """The function of a signature."""
        given = arguments(point, point["count"], DATATYPE[point["datatype"]][0], OPERATION[point["operation"]],
                          str(point["root"]), f"c->comms[{point['axis']}]")
        taken = "struct rank *c) {" if self.form == "shared" else f"void) {{\n  struct rank *c = p{self.n}_rank;"
        return (f"static OUT void p{self.n}_shared{number}({taken}\n  rank_begin(c);\n"
                f"  rank_after(c, nccl{FUNCTION[point['collective']]}({given}));\n}}")

    def any_call(self, which):
        """One line for any point."""
        self.put(f"const struct point *p = &p{self.n}_points[{which}];")
        self.put(f"rank_before(c, {which}, epoch, i);")
        self.put("ncclComm_t comm = c->comms[p->axis];")
        self.put("ncclResult_t result;")
        used = sorted({point["collective"] for point in self.spec["points"]})
        for at, collective in enumerate(used):
            given = arguments({"collective": collective}, "(size_t)p->count", "p->datatype", "p->operation", "p->root",
                              "comm")
            start = "else " if at else ""
            test = f"if (p->collective == {ENUM[collective]}) " if at < len(used) - 1 else ""
            called = f"nccl{FUNCTION[collective]}({given})" if collective in FUNCTION else \
                f"p{self.n}_{collective}(c, (size_t)p->count, p->datatype, p->axis)"
            self.put(f"{start}{test}result = {called};")
        self.put("rank_after(c, result);")
        if self.form == "coroutine":
            self.put("co_await std::suspend_always{};")

    def layers(self, points):
        self.names += 1
        name = f"p{self.n}_layers{self.names}"
        self.functions.append(f"static const int {name}[] = {{{', '.join(map(str, points))}}};")
        self.put(f"for (int layer = 0; layer < {len(points)}; layer++) {{")
        self.depth += 1
        if self.form == "wrapper":
            self.put(f"p{self.n}_collective(c, {name}[layer], epoch, i);")
        elif len({self.spec["points"][point]["collective"] for point in points}) == 1 and self.form == "pointer":
            point = self.spec["points"][points[0]]
            self.put(f"const struct point *p = &p{self.n}_points[{name}[layer]];")
            self.put(f"rank_before(c, {name}[layer], epoch, i);")
            given = arguments(point, "(size_t)p->count", "p->datatype", "p->operation", "p->root", "c->comms[p->axis]")
            self.put(f"rank_after(c, p{self.n}_nccl{FUNCTION[point['collective']]}({given}));")
        else:
            self.any_call(f"{name}[layer]")
        self.depth -= 1
        self.put("}")

    # ---- statements ----

    def condition(self, condition):
        if isinstance(condition, ast.AST):
            return self.expression(condition)
        return CONDITIONS[condition[0]].format(*condition[1:], n=self.n)

    def loop(self, count, body):
        style = self.spec["loop"]
        if self.form == "jump":
            return self.jumping_loop(count, body)
        if style in loops.IN_C:
            self.put("{ int i;")
            self.other_loop(style, "i", count, body)
            self.put("}")
            return
        if style == "while":
            self.put("{ int i = 0;")
            self.put(f"while (i < {count}) {{")
            self.block(body)
            self.put("  i++;")
            self.put("} }")
            return
        if style == "forever":
            self.put(f"for (int i = 0;; i++) {{ if (i >= {count}) break;")
        elif style == "iterator":
            self.put(f"for (int i = -1; p{self.n}_next(&i, {count});) {{")
        else:
            self.put(f"for (int i = 0; i < {count}; i++) {{")
        self.block(body)
        self.put("}")

    def jumping_loop(self, count, body):
        self.names += 1
        jump = f"jump{self.names}"
        self.put(f"{{ jmp_buf {jump}; volatile int at = -1;")
        self.put(f"if (setjmp({jump}) == 0) for (;;) {{")
        self.put(f"  const int i = p{self.n}_next_or_jump(&at, {count}, {jump});")
        self.block(body)
        self.put("} }")

    def part(self, name, how, body):
        if self.form == "coroutine":
            self.put("{")
            self.block(body)
            self.put("}")
            return
        if self.form == "lambda":
            self.put("{ const std::function<void()> part = [&]() {")
            self.block(body)
            self.put("}; part(); }")
            return
        outer, depth = self.lines, self.depth
        self.lines, self.depth = [], 0
        self.names += 1
        function = f"p{self.n}_{name}{self.names}"
        kind = "OUT" if how == "out" or self.form == "jump" else "INLINE"
        self.put(f"static {kind} void {function}(struct rank *c, int epoch, int i) {{")
        self.put("  (void)epoch, (void)i;")
        self.block(body)
        self.put("}")
        self.functions.append("\n".join(self.lines))
        self.lines, self.depth = outer, depth
        self.put(f"{function}(c, epoch, i);")

    def statement(self, statement):
        kind, rest = statement[0], statement[1:]
        if kind == "call":
            self.call(*rest)
        elif kind == "one of":
            self.call(rest[0], self.expression(rest[1]))
        elif kind == "load":
            self.put("rank_prepare(c);" if self.spec.get("prepares") else "rank_load(c);")
        elif kind == "sync":
            self.put("rank_synchronise(c);")
        elif kind == "layers":
            self.layers(*rest)
        elif kind == "iterations":
            self.loop(f"p{self.n}_{rest[0]}[epoch][c->rank]", rest[1])
        elif kind == "repeat":
            self.loop(str(rest[0]), rest[1])
        elif kind == "epochs":
            self.put(f"for (int epoch = 0; epoch < {rest[0]}; epoch++) {{")
            self.block(rest[1])
            self.put("}")
        elif kind == "if":
            condition, then, otherwise = rest
            if not then and otherwise:
                self.put(f"if (!({self.condition(condition)})) {{")
                then, otherwise = otherwise, []
            else:
                self.put(f"if ({self.condition(condition)}) {{")
            self.block(then)
            if otherwise:
                self.put("} else {")
                self.block(otherwise)
            self.put("}")
        elif kind == "part":
            self.part(*rest)
        elif kind == "break":
            self.put("break;")
        else:
            self.script_statement(kind, rest)

    # ---- the whole ----

    def text(self):
        spec, n = self.spec, self.n
        head = []
        rows = [f"{{{ENUM[p['collective']]}, {p['count']}, {DATATYPE[p['datatype']][0]}, {OPERATION[p['operation']]}, "
                f"{p['root']}, {p['axis']}}}" for p in spec["points"]]
        head.append(f"static const struct point p{n}_points[] = {{\n  " + ",\n  ".join(rows) + "};")
        for name, table in tree.tables(spec).items():
            rows = ", ".join("{" + ", ".join(map(str, row)) + "}" for row in table)
            head.append(f"static const int p{n}_{name}[][{spec['ranks']}] = {{{rows}}};")
        head.append(f"static const int p{n}_pauses[] = {{{', '.join(map(str, spec['pauses'][:6]))}}};")
        head.append(f"static inline int p{n}_next(int *i, int n) {{ return ++*i < n; }}")
        if self.form == "jump":
            head.append(f"static OUT int p{n}_next_or_jump(volatile int *at, int n, jmp_buf jump) {{\n"
                        "  if (++*at >= n)\n    longjmp(jump, 1);\n  return *at;\n}")
        head += [c_script.exchange(n, each, spec["helpers"].get("step") == "inline") for each in
                 sorted({p["collective"] for p in spec["points"]} & set(c_script.EXCHANGES))]
        if self.form == "pointer":
            for name in sorted({FUNCTION[p["collective"]] for p in spec["points"] if p["collective"] in FUNCTION}):
                head.append(f"static __typeof__(nccl{name}) *volatile p{n}_nccl{name} = nccl{name};")
        if self.form == "no_arguments":
            head.append(f"static struct rank *p{n}_rank;")
        if self.form in ("shared", "no_arguments"):
            head += [self.shared(at, point) for at, point in enumerate(spec["points"]) if spec["points"].index(point) == at]
        if self.form == "wrapper":
            self.depth = 1
            self.any_call("number")
            name = f"p{n}_collective"
            given = "(struct rank *c, int number, int epoch, int i)"
            head.append(f"static OUT void {name}_0{given} {{\n" + "\n".join(self.lines) + "\n}")
            deep = n % 7
            for at in range(deep):  # no tail calls
                head.append(f"static OUT void {name}_{at + 1}{given} {{\n  {name}_{at}(c, number, epoch, i);\n"
                            '  __asm__ volatile("");\n}')
            head.append(f"#define {name} {name}_{deep}")
            self.lines = []
        if spec["script"]:
            head += [f"static jmp_buf p{n}_skip;", f"static inline int p{n}_after(int i, int n) {{ return i + 1 < n ? i + 1 : -1; }}"]
            self.script_functions()
            self.depth = 0
            self.script_locals(script.functions(spec)["main"])
        self.depth = 0
        self.block(tree.tree(spec))
        start = "(void)epoch, (void)i, (void)p{0}_next, (void)p{0}_iterations;".format(n)
        if self.form == "coroutine":
            body = [f"static task p{n}_coroutine(struct rank *c) {{", "  int epoch = 0, i = 0;", "  " + start] + self.lines
            body += ["}", f"static void p{n}_run(struct rank *c) {{", f"  task all = p{n}_coroutine(c);",
                     "  while (!all.handle.done())", "    all.handle.resume();", "  all.handle.destroy();", "}"]
        else:
            body = [f"static void p{n}_run(struct rank *c) {{"]
            body += [f"  p{n}_rank = c;"] if self.form == "no_arguments" else []
            body += [] if spec["script"] else ["  int epoch = 0, i = 0;", "  " + start]
            # What follows the epochs is not where a failed call's return leads.
            body += self.lines + (["  rank_synchronise(c);"] if spec.get("checked") else []) + ["}"]
        return "\n".join([f"/* {spec['kind']} {spec['seed']}: {spec['class']}, {spec['form']} */"] + head + self.functions + body)


ARRANGEMENT = {"one": "ARRANGED_ONE", "two": "ARRANGED_TWO", "grid": "ARRANGED_GRID"}
ENDING = {"destroy": "ENDING_DESTROY", "finalize": "ENDING_FINALIZE", "exit": "ENDING_EXIT", "return": "ENDING_RETURN"}


def setup(spec, number):
    values = (spec["ranks"], spec["tensor"], ARRANGEMENT[spec["arrangement"]], spec["split"], int(spec["sync"] != "call"),
              ENDING[spec["ending"]], f"p{number}_pauses", f"p{number}_points")
    return "{" + ", ".join(map(str, values)) + "}"


# Of kinds with a writer of their own: that, and what stands in front of their programs.
OF_KINDS = {}


def text(spec, number):
    """The text of one program."""
    writer, _ = OF_KINDS.get(spec["kind"], (Source, ""))
    return writer(spec, number).text()


def source(specs, cpp):
    """A file of programs."""
    _, head = OF_KINDS.get(specs[0]["kind"], (Source, ""))
    parts = [HEAD + (CPP_HEAD if cpp else "") + head]
    parts += [text(spec, number) for number, spec in enumerate(specs)]
    rows = [f"  {{p{number}_run, {setup(spec, number)}}}," for number, spec in enumerate(specs)]
    external = 'extern "C" {\n%s\n}' if cpp else "%s"
    parts.append(external % ("const struct program programs[] = {\n" + "\n".join(rows) + "\n};\n"
                             f"const int nprograms = {len(specs)};"))
    return "\n\n".join(parts) + "\n"
