"""The truth about functions.py's functions: a control-flow graph made of their statements, not of their bytecode.

Sets of nodes are numbers: bit n is node n.
"""
from functions import COMPREHENSIONS, INLINED


class Context:
    """Where control goes from a statement: each takes the nodes that it comes from."""

    def __init__(self, raised, broken=None, continued=None, returned=None):
        self.raised, self.broken, self.continued, self.returned = raised, broken, continued, returned


def nothing(_):
    pass


def members(nodes):
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


class Graph:
    """Node 0 is the entry, node 1 the return."""

    def __init__(self, body):
        self.site_of = {}
        self.heads = []
        self.edges, self.exceptional = set(), set()
        self.n = 2
        end = self.build(body, [0], Context(nothing, returned=lambda f: self.connect(f, 1)))
        self.connect(end, 1)
        self.finish()

    def node(self, frontier, context, site=None):
        """A call, which may raise."""
        n = self.n
        self.n += 1
        if site is not None:
            self.site_of[n] = site
        self.connect(frontier, n)
        context.raised(n)
        return n

    def connect(self, frontier, to):
        self.edges.update((f, to) for f in frontier)

    def silent(self):
        return Context(nothing)

    def test(self, test, frontier, context):
        """The nodes from which it is true, and those from which it is not."""
        if test[0] in 'tw':
            n = self.node(frontier, context, *test[1:])
            return [n], [n]
        true, false = self.test(test[1], frontier, context)
        if test[0] == 'not':
            return false, true
        if test[0] == 'and':
            true, also = self.test(test[2], true, context)
            return true, false + also
        also, false = self.test(test[2], false, context)
        return true + also, false

    def build(self, body, frontier, context):
        for s in body:
            if not frontier:
                break
            frontier = getattr(self, 'build_' + s[0].replace(' ', '_'))(s, frontier, context)
        return frontier

    def build_site(self, s, frontier, context):
        return [self.node(frontier, context, s[1])]

    build_yield_from = build_await = build_site

    def build_yield(self, s, frontier, context):
        return [self.node([self.node(frontier, context, s[1])], context)]

    def build_choice(self, s, frontier, context):
        true, false = self.test(s[1], frontier, context)
        return [self.node(true, context, s[2]), self.node(false, context, s[3])]

    def build_comprehension(self, s, frontier, context):
        loops = COMPREHENSIONS[s[1]][1] if INLINED else 0
        heads = []
        for _ in range(loops):
            heads.append(self.node([self.node(frontier, context)], context))
            frontier = heads[-1:]
        frontier = [self.node(frontier, context, s[2])]
        for head in reversed(heads):
            self.heads.append(head)
            self.connect(frontier, head)
            frontier = [head]
        return frontier

    def build_return(self, s, frontier, context):
        context.returned(frontier if s[1] is None else [self.node(frontier, context, s[1])])
        return []

    def build_raise(self, s, frontier, context):
        self.node(frontier, context)
        return []

    def build_assert(self, s, frontier, context):
        true, false = self.test(s[1], frontier, context)
        self.node(false, context)
        return true

    def build_break(self, s, frontier, context):
        context.broken(frontier)
        return []

    def build_continue(self, s, frontier, context):
        context.continued(frontier)
        return []

    def build_if(self, s, frontier, context):
        true, false = self.test(s[1], frontier, context)
        return self.build(s[2], true, context) + self.build(s[3], false, context)

    def build_match(self, s, frontier, context):
        rest = [self.node(frontier, context)]
        ends = []
        for test, case in s[1]:
            true, false = self.test(test, rest, context) if test else (rest, [])
            ends += self.build(case, true, context)
            rest = rest + false
        return ends + rest

    def loop(self, body, head, into, out, orelse, context):
        self.heads.append(head)
        broken = []
        inner = Context(context.raised, broken.extend, lambda f: self.connect(f, head), context.returned)
        self.connect(self.build(body, into, inner), head)
        return self.build(orelse, out, context) + broken

    def build_for(self, s, frontier, context):
        head = self.node([self.node(frontier, context)], context)
        return self.loop(s[1], head, [head], [head], s[2], context)

    build_async_for = build_for

    def build_while(self, s, frontier, context):
        head = self.n
        into, out = self.test(s[1], frontier, context)
        return self.loop(s[2], head, into, out, s[3], context)

    def build_forever(self, s, frontier, context):
        head = self.node(frontier, self.silent())
        return self.loop(s[1], head, [head], [], [], context)

    def guarded(self, context, raised, final):
        """The context within a try or with: `final` puts what runs on the way out behind a frontier."""
        def through(way):
            return None if way is None else lambda f: way(final(f))
        return Context(raised, through(context.broken), through(context.continued), through(context.returned))

    def handler(self):
        h = self.node([], self.silent())
        return h, lambda n: (self.edges.add((n, h)), self.exceptional.add((n, h)))

    def build_with(self, s, frontier, context):
        enter = self.node(frontier, context)
        h, raised = self.handler()
        context.raised(h)
        inner = self.guarded(context, raised, lambda f: [self.node(f, context)])
        end = self.build(s[1], [enter], inner)
        return [self.node(end, context)] if end else []

    build_async_with = build_with

    def build_group(self, s, frontier, context):
        """What the handler raises is kept; whether anything is left to be raised is a question for later."""
        h, raised = self.handler()
        end = self.build(s[1], frontier, Context(raised, context.broken, context.continued, context.returned))
        later, kept = self.handler()
        context.raised(h)
        context.raised(later)
        return end + self.build(s[2], [h], Context(kept)) + [later]

    def build_try(self, s, frontier, context):
        _, body, handlers, orelse, final = s
        outer = context
        if final:
            hf, raised = self.handler()
            context = self.guarded(outer, raised, lambda f: self.build(final, f, outer))
        inner = context
        if handlers:
            h, raised = self.handler()
            inner = Context(raised, context.broken, context.continued, context.returned)
        # What does nothing cannot raise, but control passes here.
        end = self.build(orelse, self.build(body, frontier, inner), context)
        for handler in handlers:
            end = end + self.build(handler, [h], context)
        if handlers:
            context.raised(h)
        if final:
            for n in self.build(final, [hf], outer):
                outer.raised(n)
            end = self.build(final, end, outer) if end else []
        return end

    # ---- what is asked

    def finish(self):
        self.out, self.back, self.calm = [0] * self.n, [0] * self.n, [0] * self.n
        for a, b in self.edges:
            self.out[a] |= 1 << b
            self.back[b] |= 1 << a
            if (a, b) not in self.exceptional:
                self.calm[a] |= 1 << b
        self.reached = self.closure(1, self.out)
        self.loops = {}
        for head in self.heads:
            latches = self.back[head] & self.reached & ~self.closure(1 & ~(1 << head), self.out, 1 << head) | \
                self.back[head] & 1 << head
            if latches and self.reached >> head & 1:
                body = self.closure(latches & ~(1 << head), self.back, 1 << head) & self.reached | 1 << head
                self.loops[head] = body
        self.places = {}
        self.kept = {}

    def closure(self, start, edges, stop=0):
        seen = work = start
        while work:
            lowest = work & -work
            work ^= lowest
            new = edges[lowest.bit_length() - 1] & ~seen & ~stop
            seen |= new
            work |= new
        return seen

    def around(self, n):
        """The heads of the loops around a node, outermost first."""
        if n not in self.places:
            self.places[n] = sorted((h for h, body in self.loops.items() if body >> n & 1),
                                    key=lambda h: -bin(self.loops[h]).count('1'))
        return self.places[n]

    def without_rounds(self, common, exceptions):
        """Edges without those that go round these loops."""
        key = common, exceptions
        if key not in self.kept:
            out = list(self.out if exceptions else self.calm)
            for head in common:
                for n in members(self.loops[head]):
                    out[n] &= ~(1 << head)
            self.kept[key] = out
        return self.kept[key]

    def behind(self, n, common, exceptions, stop=None):
        """What control can come to from a node without going round these loops, or through `stop`."""
        key = n, common, exceptions, stop
        if key not in self.kept:
            self.kept[key] = self.closure(1 << n, self.without_rounds(common, exceptions), 0 if stop is None else 1 << stop)
        return self.kept[key]

    def ends(self, nodes, common):
        """Whether a return or the next round of one of these loops follows one of the nodes."""
        heads = sum(1 << h for h in common)
        return nodes >> 1 & 1 or any(self.calm[n] & heads for n in members(nodes))
