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


def draw(spec):
    """Gives some of the programs that count up another loop."""
    if spec["loop"] == "for" and spec["form"] not in ("jump", "comprehension"):
        chance = beside(spec, "loops")
        if chance.random() < 0.4:
            spec["loop"] = chance.choice(sorted(IN_PYTHON if spec["kind"] == "python" else IN_C))
