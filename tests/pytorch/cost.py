#!/usr/bin/env python3
"""PyTorch's Join against nccl-join on the loopback, side by side in one run: cost.py [ROUNDS [ITERATIONS]]; prints tables (scripts/cost.py says what is done).

Called by make bench-pytorch. The ways take turns, and each ratio is one of the same round; medians, with the quartiles in brackets. PYTORCH_BACKENDS as
in check.py.
"""

import re
import statistics
import sys

import stack
from cases import backends, check

SCRIPT = stack.HERE / "scripts/cost.py"
CALLS = 1000
WAYS = {"no join": (False, []), "nccl-join": (True, []), "PyTorch's Join": (False, ["join"])}


def once(running, environment, join, words, samples):
    """Of the last rank, which stays to the end: iterations per second; and the mean of all ranks' processor times of one, in microseconds."""
    starter = running.with_join if join else running.without
    result = check(starter.run([SCRIPT, samples, *words], 2, environment, 300), " ".join(words))
    found = re.findall(r"^RESULT (\d) ([\d.]+) iterations/s ([\d.]+) us", result.output, re.MULTILINE)
    speeds = {int(rank): float(speed) for rank, speed, _ in found}
    return speeds[1], statistics.mean(float(used) for _, _, used in found)


def spread(values, form="{:.2f}"):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{form.format(middle)} ({form.format(low)} to {form.format(high)})"


def table(running, environment, rounds, ways, words, samples, to):
    """Rows: what of `ways`, iterations per second, processor time, and both by those of the way `to` in the same round."""
    measured = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            join, more = WAYS[way]
            measured[way].append(once(running, environment, join, [*words, *more], samples))
    for way, pairs in measured.items():
        speeds, times = zip(*pairs, strict=True)
        by = [[mine[i] / other[i] for mine, other in zip(pairs, measured[to], strict=True)] for i in range(2)]
        ratios = "- | -" if way == to else f"{spread(by[0])} | {spread(by[1])}"
        yield f"{way} | {statistics.median(speeds):.1f} | {statistics.median(times) / 1000:.2f} ms | {ratios}"


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    samples = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    with stack.Stack() as running:
        for name, environment in backends():
            print(f"\n{name}, 2 ranks, {rounds} rounds of {samples} iterations, {CALLS} of calls alone\n")
            print("| | | iterations/s | processor time of one | iterations/s, by the first way | processor time, by the first way |\n|---|---|---|---|---|---|")
            for inputs, ways, words in (("even", list(WAYS), []), ("uneven", ["PyTorch's Join", "nccl-join"], ["uneven"])):
                for row in table(running, environment, rounds, ways, words, samples, ways[0]):
                    print(f"| {inputs} | {row} |", flush=True)
            for row in table(running, environment, rounds, ["no join", "nccl-join"], ["calls"], CALLS, "no join"):
                print(f"| calls alone | {row} |", flush=True)


if __name__ == "__main__":
    main()
