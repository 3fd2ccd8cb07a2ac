"""Loops over batches that are not counted up: counts down, lists, arrays with an end mark, and do-while.
They are drawn beside all else of a program, so that the others of its seed stay what they were."""

from shapes import beside

# What begins a loop in which {i} is 0, 1, ... for {count} rounds, and what ends it. {id}: of the loop, in its program.
IN_C = {
    "down": ("for (int left{id} = ({i} = 0, {count}); left{id} > 0; left{id}--, {i}++) {{", "}}"),
    "list": ("for (const struct batch *at{id} = rank_batches({count}); at{id} && (({i} = at{id}->number), 1); at{id} = at{id}->next) {{",
             "}}"),
    "marked": ("for (const int *at{id} = rank_numbers({count}); ({i} = *at{id}) >= 0; at{id}++) {{", "}}"),
    "range": ("for (const int *at{id} = rank_numbers({count}), *end{id} = rank_numbers_end({count}); at{id} != end{id}; at{id}++) {{ {i} = *at{id};",
              "}}"),
    "do": ("if (({i} = 0) < ({count})) do {{", "}} while (++{i} < ({count}));")}
IN_PYTHON = {
    "down": ("left{id} = {count}", "{i} = -1", "while left{id} > 0:", "    {i} += 1", "    left{id} -= 1"),
    "enumerate": ("for {i}, batch{id} in enumerate([None] * ({count})):",),
    "zip": ("for {i}, batch{id} in zip(range({count}), 'batches' * 20):",),
    "marked": ("batches{id} = iter(range({count}))", "while ({i} := next(batches{id}, -1)) >= 0:")}

# What begins and ends a loop of {count} rounds, which the compiler does not know to be as many: rounds of a script's range.
RANGES_IN_C = {
    "known": ("const int n{id} = rank_known({count}); for ({i} = 0; {i} < n{id}; {i}++) {{", "}}"),
    "while": ("const int n{id} = rank_known({count}); {i} = 0; while ({i} < n{id}) {{", "{i}++; }}"),
    "forever": ("const int n{id} = rank_known({count}); for ({i} = 0;; {i}++) {{ if ({i} >= n{id}) break;", "}}"),
    "long": ("const long n{id} = rank_known({count}); for (long at{id} = {i} = 0; at{id} < n{id}; {i} = (int)++at{id}) {{", "}}"),
    "down": ("for (int left{id} = ({i} = 0, rank_known({count})); left{id} > 0; left{id}--, {i}++) {{", "}}"),
    "static": ("static int n{id}; n{id} = rank_known({count}); for ({i} = 0; {i} < n{id}; {i}++) {{", "}}"),
    "range": ("const int *at{id} = rank_numbers({count}), *const end{id} = rank_numbers_end({count}); for (; at{id} != end{id}; at{id}++) {{ {i} = *at{id};",
              "}}")}


def draw(spec):
    """Gives some of the programs that count up another loop."""
    if spec["class"] == "one_line" and spec["kind"] == "c":
        draw_ranges(spec)
    if spec["loop"] == "for" and spec["form"] not in ("jump", "comprehension"):
        chance = beside(spec, "loops")
        if chance.random() < 0.4:
            spec["loop"] = chance.choice(sorted(IN_PYTHON if spec["kind"] == "python" else IN_C))


def draw_ranges(spec):
    """Gives most of them loops whose rounds a compiler does not know, variables that live as long as these, and a return in front of all."""
    chance = beside(spec, "ranges")
    spec["ranges"] = [chance.choice((None, *RANGES_IN_C)) for _ in range(2)]
    spec["kept"] = chance.choice((0, 0, 2, 4, 7))
    spec["guarded"] = chance.random() < 0.3
