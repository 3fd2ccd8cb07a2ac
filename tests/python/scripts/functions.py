"""Random structured functions, as trees of statements and as source.

A statement is a tuple: ('site', k), ('if', test, body, orelse), ('for', body, orelse), ('while', test, body, orelse),
('forever', body), ('try', body, handlers, orelse, final), ('group', body, handler), ('with', body), ('match', cases),
('choice', test, k, l), ('comprehension', shape, k), ('yield', k), ('yield from', k), ('await', k), ('async for', body, orelse),
('async with', body), ('assert', test), ('break',), ('continue',), ('return', k), ('raise',). A case of a match is a tuple of a
test, which may be None, and a body.

A test is ('t',), which is no site, ('w', k), which is one, ('not', test), ('and', test, test) or ('or', test, test). Sites are
numbered; site k is the call c(k), or w(k) in a test.
"""
import sys

KINDS = ['function', 'function', 'function', 'generator', 'async', 'async generator', 'module', 'class']
LOOPS = 'for', 'while', 'forever', 'async for'
INLINED = sys.version_info >= (3, 12)  # list, set and dict comprehensions

# Source of comprehensions, and the frames within the one of the function: how many loops around what each of them calls. First
# how many loops there are in the function itself where comprehensions are inlined.
COMPREHENSIONS = [
    ('[c(%d) for _ in r()]', 1, [], [1]),
    ('{c(%d) for _ in r() if t()}', 1, [], [1]),
    ('{_: c(%d) for _ in r() for _ in r()}', 2, [], [2]),
    ('[[c(%d) for _ in r()] for _ in r()]', 2, [], [1, 1]),
    ('list(c(%d) for _ in r())', 0, [1], [1]),
    ('[list(c(%d) for _ in r()) for _ in r()]', 1, [1], [1, 1]),
    ('(lambda: c(%d))()', 0, [0], [0]),
    ('[*map(lambda _: c(%d), r())]', 0, [0], [0]),
]


class Generator:
    def __init__(self, random):
        self.random = random
        self.sites = 0
        self.inner = {}  # by site: loops in each frame within the function's, outermost first
        self.kind = random.choice(KINDS)
        self.returns = self.kind not in ('module', 'class')
        self.raises = True

    def site(self):
        self.sites += 1
        return self.sites - 1

    def test(self, depth=0):
        kind = self.random.choice(['t'] * 4 + ['w', 'w', 'not', 'and', 'or'][:5 if depth < 2 else 2])
        if kind == 't':
            return ('t',)
        if kind == 'w':
            return ('w', self.site())
        return (kind,) + tuple(self.test(depth + 1) for _ in range(1 if kind == 'not' else 2))

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
        kinds = ['raise'] * self.raises + ['return'] * self.returns + ['break', 'continue'] * 2 * (loops > 0)
        kind = self.random.choice(kinds or ['site'])
        if kind == 'site':
            return self.make_site(kind, 0, 0)
        if kind == 'return':
            return ('return', None if self.kind == 'async generator' else self.site())
        return (kind,)

    def maybe(self, chance, depth, loops):
        return self.body(depth, loops) if self.random.random() < chance else []

    def kinds(self, depth):
        kinds = ['site'] * 3 + ['choice', 'comprehension']
        if 'generator' in self.kind:
            kinds += ['yield']
        if self.kind == 'generator':
            kinds += ['yield from']
        if 'async' in self.kind:
            kinds += ['await']
        if depth < 4:
            kinds += ['if', 'if', 'for', 'for', 'while', 'forever', 'try', 'try', 'with'] + ['assert'] * self.raises
            kinds += ['match'] * (sys.version_info >= (3, 10)) + ['group'] * (sys.version_info >= (3, 11))
            kinds += ['async for', 'async with'] * ('async' in self.kind)
        return kinds

    def statement(self, depth, loops):
        kind = self.random.choice(self.kinds(depth))
        return getattr(self, 'make_' + kind.replace(' ', '_'))(kind, depth, loops)

    def make_site(self, kind, depth, loops):
        return (kind, self.site())

    make_yield = make_yield_from = make_await = make_site


    def make_choice(self, kind, depth, loops):
        return (kind, self.test(), self.site(), self.site())

    def make_comprehension(self, kind, depth, loops):
        k, shape = self.site(), self.random.randrange(len(COMPREHENSIONS))
        if self.kind == 'class':
            shape = 4  # what is inlined elsewhere is not in a class
        self.inner[k] = COMPREHENSIONS[shape][2 if INLINED else 3]
        return (kind, shape, k)

    def make_assert(self, kind, depth, loops):
        return (kind, self.test())

    def make_if(self, kind, depth, loops):
        return (kind, self.test(), self.body(depth + 1, loops), self.maybe(0.5, depth + 1, loops))

    def make_for(self, kind, depth, loops):
        return (kind, self.body(depth + 1, loops + 1), self.maybe(0.2, depth + 1, loops))

    make_async_for = make_for

    def make_while(self, kind, depth, loops):
        return (kind, self.test()) + self.make_for(kind, depth, loops)[1:]

    def make_forever(self, kind, depth, loops):
        # In 3.9 a loop that begins with a loop has the same head in the bytecode, and is one with it.
        begin = [('site', self.site())] if sys.version_info < (3, 10) or self.random.random() < 0.3 else []
        return (kind, begin + self.body(depth + 1, loops + 1))

    def make_with(self, kind, depth, loops):
        return (kind, self.body(depth + 1, loops))

    make_async_with = make_with

    def make_match(self, kind, depth, loops):
        cases = []
        for _ in range(self.random.randint(1, 3)):
            test = self.test() if self.random.random() < 0.2 else None
            cases.append((test, self.body(depth + 1, loops)))
        return (kind, cases)

    def make_group(self, kind, depth, loops):
        body = self.body(depth + 1, loops)
        was, self.returns = self.returns, False
        handler = self.body(depth + 1, 0)
        self.returns = was
        return (kind, body, handler)

    def make_try(self, kind, depth, loops):
        handlers = [self.body(depth + 1, loops) for _ in range(self.random.choice((0, 1, 1, 2)))]
        # What a `finally` raises would hide the exception that ends a run.
        was, self.raises = self.raises, False
        final = self.body(depth + 1, 0) if not handlers or self.random.random() < 0.3 else []
        self.raises = was
        body = self.body(depth + 1, loops)
        # What can only run if a `with` swallows an exception would say that it does.
        orelse = self.maybe(0.2, depth + 1, loops) if handlers and all(completes(x) for x in body) else []
        return (kind, body, handlers, orelse,
                [s for s in final if s[0] != 'return'] or ([('site', self.site())] if final else []))


def bodies(s):
    """The bodies of a statement, without those of a match."""
    return [b for part in s[1:] if isinstance(part, list) for b in (part if part and isinstance(part[0], list) else [part])]


def leaves_loop(body):
    """Whether there is a break for a loop around the body."""
    for s in body:
        if s[0] == 'break':
            return True
        if s[0] == 'match':
            parts = [case[1] for case in s[1]]
        elif s[0] in LOOPS:
            parts = bodies(s)[1:]
        else:
            parts = bodies(s)
        if any(leaves_loop(b) for b in parts):
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
        return all_of(s[2]) or all_of(s[3])
    if kind in ('for', 'while', 'async for'):
        return all_of(s[-1]) or leaves_loop(s[-2])
    if kind == 'forever':
        return leaves_loop(s[1])
    if kind in ('with', 'async with'):
        return all_of(s[1])
    if kind == 'group':
        return all_of(s[1]) or all_of(s[2])
    if kind == 'try':
        inner = (all_of(s[1]) and all_of(s[3])) or any(all_of(h) for h in s[2])
        return inner and all_of(s[4])
    return True


# ---- source

def test_text(test):
    if test[0] in 'tw':
        return 't()' if test[0] == 't' else 'w(%d)' % test[1]
    if test[0] == 'not':
        return 'not (%s)' % test_text(test[1])
    return '(%s) %s (%s)' % (test_text(test[1]), test[0], test_text(test[2]))


SIMPLE = {'site': 'c(%d)', 'yield': 'yield c(%d)', 'yield from': 'yield from y(%d)', 'await': 'await a(%d)'}
HEADS = {'for': 'for _ in r():', 'async for': 'async for _ in ar():', 'forever': 'while True:', 'with': 'with m():',
         'async with': 'async with am():'}


def source(body, indent=1):
    """Lines of the program."""
    pad = '    ' * indent
    lines = []

    def part(head, inner):
        lines.append(pad + head)
        lines.extend(source(inner, indent + 1) if inner else [pad + '    pass'])

    for s in body:
        kind = s[0]
        if kind in SIMPLE:
            lines.append(pad + SIMPLE[kind] % s[1])
        elif kind == 'return':
            lines.append(pad + ('return' if s[1] is None else 'return c(%d)' % s[1]))
        elif kind == 'raise':
            lines.append(pad + 'raise E')
        elif kind in ('break', 'continue'):
            lines.append(pad + kind)
        elif kind == 'assert':
            lines.append(pad + 'assert ' + test_text(s[1]))
        elif kind == 'choice':
            lines.append(pad + 'c(%d) if %s else c(%d)' % (s[2], test_text(s[1]), s[3]))
        elif kind == 'comprehension':
            lines.append(pad + COMPREHENSIONS[s[1]][0] % s[2])
        elif kind in ('if', 'while'):
            part('%s %s:' % (kind, test_text(s[1])), s[2])
            if s[3]:
                part('else:', s[3])
        elif kind in HEADS:
            part(HEADS[kind], s[1])
            if len(s) > 2 and s[2]:
                part('else:', s[2])
        elif kind == 'match':
            lines.append(pad + 'match n():')
            for i, (test, case) in enumerate(s[1]):
                lines.append(pad + '    case %d%s:' % (i, ' if ' + test_text(test) if test else ''))
                lines.extend(source(case, indent + 2))
        elif kind == 'group':
            part('try:', s[1])
            part('except* E:', s[2])
        else:
            part('try:', s[1])
            for i, handler in enumerate(s[2]):
                part('except %s:' % ('E', 'ValueError')[i], handler)
            if s[3]:
                part('else:', s[3])
            if s[4]:
                part('finally:', s[4])
    return lines


FRAMES = {'function': 'def f():', 'generator': 'def f():', 'async': 'async def f():', 'async generator': 'async def f():',
          'class': 'class F:'}


def whole(kind, body):
    """The text of the program that defines f, or of a module or class is what f runs."""
    if kind == 'module':
        return '\n'.join(['if True:'] + source(body))
    lines = [FRAMES[kind]] + source(body)
    if 'generator' in kind:
        lines.append('    if False: yield')
    return '\n'.join(lines)
