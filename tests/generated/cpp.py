"""The classes of classes.py in more of C++'s ways of writing them, at all levels of optimisation of g++ and clang++:

    ranges     loops are range-for over an iterator of the program's, or end by an exception; parts are lambdas in a vector of
               functions, members of an object, arguments of templates, or run in a destructor
    virtual    the same, and all collectives of one signature come through a virtual function
"""

import random as random_module

import c_source
import classes
import scripts

FORMS = ("ranges", "ranges", "virtual")
CLASSES = {name: make for name, make in classes.CLASSES.items() if name not in scripts.SCRIPTS}
COMPILERS = tuple((compiler, flags) for compiler in ("g++", "clang++") for flags in ("-O0", "-O1", "-O2", "-O2", "-O3"))

HEAD = """\
#include <vector>
struct loader {
  int n;
  struct iterator {
    int i;
    bool operator!=(const iterator &other) const { return i != other.i; }
    void operator++() { ++i; }
    int operator*() const { return i; }
  };
  iterator begin() const { return {0}; }
  iterator end() const { return {n}; }
};
struct end_of_data {};
static OUT int next_or_throw(int *at, int n) {
  if (++*at >= n)
    throw end_of_data();
  return *at;
}
struct operation {
  virtual void run(struct rank *c) = 0;
  virtual ~operation() = default;
};
template <typename F> struct closing {
  F &body;
  ~closing() noexcept(false) { body(); }
};
template <typename F> OUT void called(F &&body) {
  body();
  __asm__ volatile("");
}
template <typename F> struct stage {
  F body;
  OUT void go() {
    body();
    __asm__ volatile("");
  }
};
"""


class CppSource(c_source.Source):
    def __init__(self, spec, number):
        super().__init__(spec, number)
        self.is_cpp = True
        self.random = random_module.Random(f"cpp {spec['seed']}")

    def one_call(self, number, behind=None):
        if self.form == "ranges":
            super().one_call(number, behind)
            return
        self.put(f"rank_before(c, {number}, epoch, i);")
        self.put(f"p{self.n}_operations[{self.spec['points'].index(self.spec['points'][number])}]->run(c);")

    def loop(self, count, body):
        if self.random.random() < 0.75:
            self.put(f"for (const int i : loader{{{count}}}) {{")
            self.block(body)
            self.put("}")
            return
        self.names += 1
        at = f"at{self.names}"
        self.put(f"try {{ for (int {at} = -1;;) {{")
        self.put(f"  const int i = next_or_throw(&{at}, {count});")
        self.block(body)
        self.put("} } catch (const end_of_data &) {}")

    def part(self, name, how, body):
        self.names += 1
        part = f"part{self.names}"
        self.put(f"{{ auto {part} = [&]() {{")
        self.block(body)
        self.put("};")
        self.put(self.random.choice((
            f"std::vector<std::function<void()>> all; all.push_back({part}); for (auto &one : all) one();",
            f"closing<decltype({part})> scope{{{part}}}; (void)scope;", f"called({part});", f"stage<decltype({part})>{{{part}}}.go();")))
        self.put("}")

    def text(self):
        made = super().text()
        if self.form == "ranges":
            return made
        operations = []
        for at, point in enumerate(self.spec["points"]):
            given = c_source.arguments(point, point["count"], c_source.DATATYPE[point["datatype"]][0],
                                       c_source.OPERATION[point["operation"]], str(point["root"]), f"c->comms[{point['axis']}]")
            operations.append(f"static struct p{self.n}_operation{at} final : operation {{\n  void run(struct rank *c) override {{\n"
                              f"    rank_after(c, nccl{c_source.FUNCTION[point['collective']]}({given}));\n  }}\n}} p{self.n}_made{at};")
        names = ", ".join(f"&p{self.n}_made{at}" for at in range(len(self.spec["points"])))
        return "\n".join(operations + [f"static operation *volatile p{self.n}_operations[] = {{{names}}};", made])


c_source.OF_KINDS["cpp"] = (CppSource, HEAD)


def compiler(random):
    return list(random.choice(COMPILERS))
