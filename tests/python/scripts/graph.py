"""Random structured functions, and the truth about them: a control-flow graph made of their statements, not of their
bytecode.

A statement is a tuple: ('site', k), ('if', body, orelse), ('for', body, orelse), ('while', body, orelse),
('forever', body), ('try', body, handlers, orelse, final), ('with', body), ('match', cases), ('break',),
('continue',), ('return', k), ('raise',). Sites are numbered; site k is the call c(k).
"""
import sys


class Generator:
    def __init__(self, random):
        self.random = random
        self.sites = 0

    def site(self):
        self.sites += 1
        return self.sites - 1

    def body(self, depth, loops):
        """Statements; the last one may leave."""
        made = []
        for _ in range(self.random.randint(1, 3)):
            made.append(self.statement(depth, loops))
            if not completes(made[-1]):
                return made
        if self.random.random() < 0.2:
            made.append(self.leaving(loops))
        return made

    def leaving(self, loops):
        kinds = ['return', 'raise'] + ['break', 'continue'] * 2 * (loops > 0)
        kind = self.random.choice(kinds)
        return ('return', self.site()) if kind == 'return' else (kind,)

    def maybe(self, chance, depth, loops):
        return self.body(depth, loops) if self.random.random() < chance else []

    def statement(self, depth, loops):
        kinds = ['site'] * 3
        if depth < 4:
            kinds += ['if', 'if', 'for', 'for', 'while', 'forever', 'try', 'try', 'with'] + ['match'] * (sys.version_info >= (3, 10))
        kind = self.random.choice(kinds)
        if kind == 'site':
            return (kind, self.site())
        if kind == 'if':
            return (kind, self.body(depth + 1, loops), self.maybe(0.5, depth + 1, loops))
        if kind in ('for', 'while'):
            return (kind, self.body(depth + 1, loops + 1), self.maybe(0.2, depth + 1, loops))
        if kind == 'forever':
            # A loop that begins with a loop has the same head in the bytecode, and is one with it.
            return (kind, [('site', self.site())] + self.body(depth + 1, loops + 1))
        if kind == 'with':
            return (kind, self.body(depth + 1, loops))
        if kind == 'match':
            return (kind, [self.body(depth + 1, loops) for _ in range(self.random.randint(1, 3))])
        handlers = [self.body(depth + 1, loops) for _ in range(self.random.choice((0, 1, 1, 2)))]
        final = self.body(depth + 1, 0) if not handlers or self.random.random() < 0.3 else []
        return (kind, self.body(depth + 1, loops), handlers, self.maybe(0.2, depth + 1, loops) if handlers else [],
                [s for s in final if s[0] != 'return'] or ([('site', self.site())] if final else []))


def leaves_loop(body):
    """Whether there is a break for a loop around the body."""
    for s in body:
        if s[0] == 'break':
            return True
        if s[0] not in ('for', 'while', 'forever'):
            parts = [p for p in s[1:] if isinstance(p, list)]
        else:
            parts = [s[2]] if len(s) > 2 else []
        for part in parts:
            bodies = part if part and isinstance(part[0], list) else [part]
            if any(leaves_loop(b) for b in bodies):
                return True
    return False


def completes(s):
    """Whether what stands behind the statement may run after it."""
    def all_of(body):
        return all(completes(x) for x in body)
    kind = s[0]
    if kind in ('break', 'continue', 'return', 'raise'):
        return False
    if kind == 'if':
        return all_of(s[1]) or all_of(s[2])
    if kind in ('for', 'while'):
        return all_of(s[2]) or leaves_loop(s[1])
    if kind == 'forever':
        return leaves_loop(s[1])
    if kind == 'with':
        return all_of(s[1])
    if kind == 'match':
        return True
    if kind == 'try':
        inner = (all_of(s[1]) and all_of(s[3])) or any(all_of(h) for h in s[2])
        return inner and all_of(s[4])
    return True


def source(body, indent=1):
    """Lines of the program."""
    pad = '    ' * indent
    lines = []

    def part(head, inner):
        lines.append(pad + head)
        lines.extend(source(inner, indent + 1) if inner else [pad + '    pass'])

    for s in body:
        kind = s[0]
        if kind == 'site':
            lines.append(pad + 'c(%d)' % s[1])
        elif kind == 'return':
            lines.append(pad + 'return c(%d)' % s[1])
        elif kind == 'raise':
            lines.append(pad + 'raise E')
        elif kind in ('break', 'continue'):
            lines.append(pad + kind)
        elif kind == 'if':
            part('if t():', s[1])
            if s[2]:
                part('else:', s[2])
        elif kind in ('for', 'while'):
            part('for _ in r():' if kind == 'for' else 'while t():', s[1])
            if s[2]:
                part('else:', s[2])
        elif kind == 'forever':
            part('while True:', s[1])
        elif kind == 'with':
            part('with m():', s[1])
        elif kind == 'match':
            lines.append(pad + 'match n():')
            for i, case in enumerate(s[1]):
                lines.append(pad + '    case %d:' % i)
                lines.extend(source(case, indent + 2))
        else:
            part('try:', s[1])
            for i, handler in enumerate(s[2]):
                part('except %s:' % ('E', 'ValueError')[i], handler)
            if s[3]:
                part('else:', s[3])
            if s[4]:
                part('finally:', s[4])
    return lines


class Context:
    """Where control goes from a statement: each takes the nodes that it comes from."""

    def __init__(self, raised, broken=None, continued=None, returned=None):
        self.raised, self.broken, self.continued, self.returned = raised, broken, continued, returned


class Graph:
    """Nodes are numbers; node 0 is the entry, node 1 the return."""

    def __init__(self, body):
        self.site_of = {}
        self.heads = []
        self.edges, self.exceptional = set(), set()
        self.n = 2
        end = self.build(body, [0], Context(lambda n: None, returned=lambda f: self.connect(f, 1)))
        self.connect(end, 1)

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
        return Context(lambda n: None)

    def build(self, body, frontier, context):
        for s in body:
            if not frontier:
                break
            frontier = getattr(self, 'build_' + s[0])(s, frontier, context)
        return frontier

    def build_site(self, s, frontier, context):
        return [self.node(frontier, context, s[1])]

    def build_return(self, s, frontier, context):
        context.returned([self.node(frontier, context, s[1])])
        return []

    def build_raise(self, s, frontier, context):
        n = self.node(frontier, context)
        self.heads.append(None)
        return [] if n else []

    def build_break(self, s, frontier, context):
        context.broken(frontier)
        return []

    def build_continue(self, s, frontier, context):
        context.continued(frontier)
        return []

    def build_if(self, s, frontier, context):
        test = self.node(frontier, context)
        return self.build(s[1], [test], context) + (self.build(s[2], [test], context) if s[2] else [test])

    def build_match(self, s, frontier, context):
        test = self.node(frontier, context)
        ends = [test]
        for case in s[1]:
            ends += self.build(case, [test], context)
        return ends

    def loop(self, s, head, orelse, context, exits):
        self.heads.append(head)
        broken = []
        inner = Context(context.raised, broken.extend, lambda f: self.connect(f, head), context.returned)
        self.connect(self.build(s[1], [head], inner), head)
        ends = self.build(orelse, [head], context) if exits else []
        return ends + broken

    def build_for(self, s, frontier, context):
        return self.loop(s, self.node([self.node(frontier, context)], context), s[2], context, True)

    def build_while(self, s, frontier, context):
        return self.loop(s, self.node(frontier, context), s[2], context, True)

    def build_forever(self, s, frontier, context):
        return self.loop(s, self.node(frontier, self.silent()), [], context, False)

    def guarded(self, context, raised, final):
        """The context within a try or with: `final` puts what runs on the way out behind a frontier."""
        def through(way):
            return None if way is None else lambda f: way(final(f))
        return Context(raised, through(context.broken), through(context.continued), through(context.returned))

    def handler(self, context):
        h = self.node([], self.silent())
        return h, lambda n: (self.edges.add((n, h)), self.exceptional.add((n, h)))

    def build_with(self, s, frontier, context):
        enter = self.node(frontier, context)
        h, raised = self.handler(context)
        context.raised(h)
        inner = self.guarded(context, raised, lambda f: [self.node(f, context)])
        end = self.build(s[1], [enter], inner)
        return [self.node(end, context)] if end else []

    def build_try(self, s, frontier, context):
        _, body, handlers, orelse, final = s
        outer = context
        if final:
            hf, raised = self.handler(context)
            context = self.guarded(outer, raised, lambda f: self.build(final, f, outer))
        inner, h = context, None
        if handlers:
            h, raised = self.handler(context)
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
        self.out = {}
        self.back = {}
        for a, b in self.edges:
            self.out.setdefault(a, set()).add(b)
            self.back.setdefault(b, set()).add(a)
        self.reached = self.closure({0}, self.out)
        self.loops = {}
        for head in self.heads:
            if head is None or head not in self.reached:
                continue
            latches = {a for a in self.back.get(head, ()) if a in self.reached and self.dominates(head, a)}
            if latches:
                self.loops[head] = self.closure(latches - {head}, self.back, {head}) & self.reached | {head}

    def closure(self, start, edges, stop=()):
        seen, work = set(start), list(start)
        while work:
            for b in edges.get(work.pop(), ()):
                if b not in seen and b not in stop:
                    seen.add(b)
                    work.append(b)
        return seen

    def dominates(self, a, b):
        return a == b or b not in self.closure({0} - {a}, self.out, {a})

    def around(self, n):
        """The heads of the loops around a node, outermost first."""
        return sorted((h for h in self.loops if n in self.loops[h]), key=lambda h: -len(self.loops[h]))

    def without_rounds(self, common, exceptions=True):
        """Edges without those to the heads of these loops."""
        out = {}
        for a, b in self.edges:
            round_of = b in common and a in self.loops[b]
            if not round_of and (exceptions or (a, b) not in self.exceptional):
                out.setdefault(a, set()).add(b)
        return out
