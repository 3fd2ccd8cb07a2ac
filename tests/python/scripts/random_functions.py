"""Compares the nodes of calls in random functions with what the source says (graph.py).

  python3.X random_functions.py LIBRARY FUNCTIONS SEED [NUMBER]

The last line is "N functions, M calls, W wrong". NUMBER: only that function.
"""
import ctypes
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import graph  # noqa: E402

probe = ctypes.CDLL(sys.argv[1])
numbers = (ctypes.c_uint32 * 96)()
RUNS, CALLS = 60, 150


class E(Exception):
    pass


class Enough(BaseException):
    pass


class Run:
    """One function, run with random answers to its tests."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.seen = {}
        self.prefix = 0

    def c(self, k):
        n = probe.probe_nodes(numbers, 16)
        nodes = tuple(tuple(numbers[6 * i:6 * i + 6]) for i in range(self.prefix, n - 1))
        if n < 16:
            self.seen.setdefault(k, set()).add(nodes)
        self.step()
        return k

    def step(self):
        self.left -= 1
        if self.left < 0:
            raise Enough
        if self.random.random() < 0.08:
            raise self.random.choice((E, E, ValueError, KeyError))

    def t(self):
        self.step()
        return self.random.random() < 0.5

    def r(self):
        self.step()
        return range(self.random.randint(0, 3))

    def n(self):
        self.step()
        return self.random.randint(0, 3)

    def m(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def observe(run, function):
    for _ in range(RUNS):
        run.left = CALLS
        try:
            function()
        except (Enough, E, ValueError, KeyError):
            pass


def compare(g, run, text):
    """How many calls were compared, and what is wrong."""
    wrong = []
    copies = {}
    for n, site in g.site_of.items():
        if n in g.reached:
            copies.setdefault(site, []).append(n)
    names = {}
    for site, seen in run.seen.items():
        truths = [g.around(n) for n in copies.get(site, ())]
        # From 3.10 to 3.13 the compiler copies ends of functions where that saves a jump.
        if len(seen) > len(truths) and not (3, 10) <= sys.version_info < (3, 14):
            wrong.append('site %d: %d places, %d copies' % (site, len(seen), len(truths)))
        for nodes in seen:
            if len(nodes) - 1 not in [len(t) for t in truths]:
                wrong.append('site %d: %d loops, not %s' % (site, len(nodes) - 1, [len(t) for t in truths]))
            if len(truths) == 1 and len(nodes) - 1 == len(truths[0]):
                for node, head in zip(nodes, truths[0]):
                    names.setdefault(head, set()).add(node[0])
    owners = {}
    for head, ids in names.items():
        if len(ids) > 1:
            wrong.append('loop %d has ids %s' % (head, ids))
        for i in ids:
            if owners.setdefault(i, head) != head:
                wrong.append('loops %d and %d have one id' % (owners[i], head))
    if not wrong:
        wrong += compare_orders(g, run, {s: c[0] for s, c in copies.items() if len(c) == 1})
    return sum(len(s) for s in run.seen.values()), wrong


def compare_orders(g, run, single):
    wrong = []
    sites = [s for s in run.seen if s in single and len(run.seen[s]) == 1]
    for a in sites:
        for b in sites:
            if a != b:
                wrong += compare_two(g, single[a], single[b], next(iter(run.seen[a])), next(iter(run.seen[b])), (a, b))
    return wrong


def compare_two(g, a, b, nodes_a, nodes_b, sites):
    depth = next((i for i, (x, y) in enumerate(zip(nodes_a, nodes_b)) if x != y), None)
    if depth is None:
        return ['sites %d and %d have one place' % sites]
    heads_a, heads_b = g.around(a) + [a], g.around(b) + [b]
    common = set(heads_a[:depth])
    x, y = nodes_a[depth], nodes_b[depth]
    if not (x[5] and y[5]):
        return ['sites %d, %d: not ordered' % sites]
    wrong = []
    out = g.without_rounds(common)
    # What ends in an exception that nobody handles comes last, whatever a handler might do after it.
    if b in g.closure({a}, g.without_rounds(common, exceptions=False)) and not x[1] < y[1]:
        wrong.append('site %d comes before %d: orders %d, %d' % (*sites, x[1], y[1]))
    # b's node is always passed behind a: without it no way leads out of the round.
    node = heads_b[depth]
    behind = g.closure({a}, g.without_rounds(common, exceptions=False), {node})
    ends = 1 in behind or any(h in g.out.get(n, ()) for n in behind for h in common if (n, h) not in g.exceptional)
    if y[2] <= x[1] < y[1] and ends:
        wrong.append('site %d is not always followed by %d' % sites)
    # a's node has always been passed before b.
    start = max(common, key=lambda h: -len(g.loops[h])) if common else 0
    node = heads_a[depth]
    before = g.closure({start}, g.without_rounds(common, exceptions=False), {node})
    if x[1] < y[1] <= x[3] and b in before:
        wrong.append('site %d does not always come before %d' % sites)
    return wrong


def main():
    functions, seed = int(sys.argv[2]), int(sys.argv[3])
    compared, bad = 0, 0
    for number in range(functions) if len(sys.argv) < 5 else [int(sys.argv[4])]:
        generator = graph.Generator(random.Random('%d %d' % (seed, number)))
        body = generator.body(0, 0)
        text = '\n'.join(['def f():'] + graph.source(body))
        run = Run(number)
        names = {name: getattr(run, name) for name in 'ctrnm'}
        names['E'] = E
        exec(compile('def f():\n    c(0)', 'random', 'exec'), names)
        run.left = 1000
        try:
            observe(run, names['f'])
        finally:
            run.prefix = len(next(iter(run.seen[0]))) - 1
            run.seen = {}
        exec(compile(text, 'random%d.py' % number, 'exec'), names)
        observe(run, names['f'])
        g = graph.Graph(body)
        g.finish()
        calls, wrong = compare(g, run, text)
        compared += calls
        if wrong:
            bad += 1
            if bad <= 3:
                print('function %d of seed %d:' % (number, seed), *wrong[:5], sep='\n  ')
                print(text)
    print('%d functions, %d calls, %d wrong' % (functions, compared, bad))
    return bad != 0


sys.exit(main())
