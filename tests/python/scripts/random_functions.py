"""Compares the nodes of calls in random functions (functions.py) with what their source says (truth.py).

  python3.X random_functions.py LIBRARY FUNCTIONS SEED [NUMBER]

The last line is "N functions, M calls, W wrong". NUMBER: only that function.
"""
import collections
import ctypes
import os
import random
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import functions  # noqa: E402
import truth  # noqa: E402

probe = ctypes.CDLL(sys.argv[1])
ROOM, WORDS = 64, 8
numbers = (ctypes.c_uint32 * (ROOM * WORDS))()
RUNS, CALLS, PAIRS, SHRINK_TRIES = 40, 150, 3000, 2000
Node = collections.namedtuple('Node', 'id order since until is_loop is_ordered reach_from reach_to')


class E(Exception):
    pass


class Enough(BaseException):
    pass


EXPECTED = E, ValueError, KeyError, Enough, AssertionError, RuntimeError
if sys.version_info >= (3, 11):
    EXPECTED += BaseExceptionGroup,  # noqa: F821


class Run:
    """One function, run with random answers to its tests."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.seen = {}

    def look(self, k):
        n = probe.probe_nodes(numbers, ROOM)
        self.seen.setdefault(k, set()).add(tuple(numbers[:WORDS * n]))
        self.step()

    def c(self, k):
        self.look(k)
        return k

    def w(self, k):
        self.look(k)
        return self.random.random() < 0.5

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

    def y(self, k):
        self.look(k)
        for _ in range(self.random.randint(0, 2)):
            yield
        self.step()

    async def a(self, k):
        if self.random.random() < 0.5:
            await Pause()
        self.look(k)
        await Pause()
        self.step()

    async def ar(self):
        self.step()
        for _ in range(self.random.randint(0, 3)):
            await Pause()
            yield
            self.step()

    def m(self):
        return self

    am = m

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    async def __aenter__(self):
        await Pause()

    async def __aexit__(self, *_):
        await Pause()
        return False


class Pause:
    def __await__(self):
        yield


# ---- ways to run a function of each kind to its end

def drive_function(f, _):
    f()


def drive_generator(f, chance):
    generator = f()
    try:
        for _ in generator:
            while chance.random() < 0.1:
                generator.throw(E)
    except StopIteration:
        pass
    finally:
        generator.close()


def drive_async(f, chance):
    finish(f(), chance)


def finish(coroutine, chance):
    try:
        coroutine.send(None)
        while True:
            coroutine.throw(E) if chance.random() < 0.03 else coroutine.send(None)
    except StopIteration:
        pass
    finally:
        coroutine.close()


def drive_async_generator(f, chance):
    generator = f()
    try:
        for _ in range(CALLS):
            finish(generator.__anext__(), chance)
    except StopAsyncIteration:
        pass
    finally:
        finish(generator.aclose(), chance)


def drive_code(code, _):
    exec(code, names)


drive_module = drive_class = drive_code

# ---- ways to come to it

torch = {}
exec(compile('''def call(self, f, *rest):
    for hook in self:
        try:
            return f(*rest)
        finally:
            hook()
''', '/usr/lib/python3/dist-packages/torch/nn/modules/module.py', 'exec'), torch)


def decorated(function):
    def around(*rest):
        while True:
            return function(*rest)
    return around


def in_thread(drive, *rest):
    failures = []

    def run():
        try:
            drive(*rest)
        except EXPECTED as e:
            failures.append(e)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def in_text(drive, *rest):
    exec('for _ in range(1):\n drive(*rest)', {'drive': drive, 'rest': rest})


WAYS = [lambda drive, *rest: drive(*rest), decorated(lambda drive, *rest: drive(*rest)), in_text, in_thread,
        lambda drive, *rest: torch['call']([int], drive, *rest), lambda drive, *rest: list(map(drive, *([x] for x in rest)))]


def observe(run, kind, function):
    drive = globals()['drive_' + kind.replace(' ', '_')]
    for i in range(RUNS):
        run.left = CALLS
        try:
            WAYS[i % 6 if i < 12 else 0](drive, function, run.random)
        except EXPECTED:
            pass


# ---- the comparison

def frames_of(words):
    """Nodes of each frame, outermost first."""
    found, frame = [], []
    for i in range(0, len(words), WORDS):
        node = Node(*words[i:i + WORDS])
        frame.append(node)
        if not node.is_loop:
            found.append(tuple(frame))
            frame = []
    return found


def places_of(run, inner, wrong):
    """By site: the nodes of the function's frame, as often as they differ. Frames within it are compared with `inner`."""
    places = {}
    for site, seen in run.seen.items():
        within = inner.get(site, [])
        for words in seen:
            frames = frames_of(words)[:-2]  # without look() and what called it
            if len(words) == ROOM * WORDS or not frames:
                continue
            if within:
                loops = [len(f) - 1 for f in frames[-len(within):]]
                if loops != within:
                    wrong.append('site %d: %s loops in the frames within' % (site, loops))
                frames = frames[:-len(within)]
            places.setdefault(site, set()).add(frames[-1])
    return places


def compare_loops(g, places, wrong):
    """Returns the only node of each site that has one node, and one place."""
    copies, single, names = {}, {}, {}
    for n, site in g.site_of.items():
        if g.reached >> n & 1:
            copies.setdefault(site, []).append(n)
    for site, seen in places.items():
        truths = [g.around(n) for n in copies.get(site, ())]
        depths = {len(t) for t in truths}
        if len(seen) > len(truths):
            wrong.append('site %d: %d places, %d copies' % (site, len(seen), len(truths)))
        for nodes in seen:
            if len(nodes) - 1 not in depths:
                wrong.append('site %d: %d loops, not %s' % (site, len(nodes) - 1, sorted(depths)))
            elif len(truths) == 1:
                for node, head in zip(nodes, truths[0]):
                    names.setdefault(head, set()).add(node.id)
        if len(truths) == len(seen) == 1:
            single[site] = copies[site][0], next(iter(seen))
    owners = {}
    for head, ids in names.items():
        if len(ids) > 1:
            wrong.append('loop %d has ids %s' % (head, ids))
        for i in ids:
            if owners.setdefault(i, head) != head:
                wrong.append('loops %d and %d have one id' % (owners[i], head))
    return single


def compare_two(g, sites, a, nodes_a, b, nodes_b):
    depth = next((i for i, (x, y) in enumerate(zip(nodes_a, nodes_b)) if x != y), None)
    if depth is None:
        return ['sites %d and %d have one place' % sites]
    heads_a, heads_b = g.around(a) + [a], g.around(b) + [b]
    common = tuple(heads_a[:depth])
    x, y = nodes_a[depth], nodes_b[depth]
    if not (x.is_ordered and y.is_ordered):
        return ['sites %d, %d: not ordered' % sites]
    wrong = []
    # What ends in an exception that nobody handles comes last, whatever a handler might do after it.
    if g.behind(a, common, False) >> b & 1 and not x.order < y.order:
        wrong.append('site %d comes before %d: orders %d, %d' % (*sites, x.order, y.order))
    # b's node is always passed behind a: without it no way leads out of the round.
    if y.since <= x.order < y.order and g.ends(g.behind(a, common, False, heads_b[depth]), common):
        wrong.append('site %d is not always followed by %d' % sites)
    # a's node has always been passed before b.
    start = common[-1] if common else 0
    if x.order < y.order <= x.until and heads_a[depth] != start and g.behind(start, common, False, heads_a[depth]) >> b & 1:
        wrong.append('site %d does not always come before %d' % sites)
    # Control can come from a's node to b's.
    if x.reach_from <= y.order <= x.reach_to and not g.behind(heads_a[depth], common, True) >> heads_b[depth] & 1:
        wrong.append('control does not come from site %d to %d' % sites)
    return wrong


def compare(body, generator, run):
    """How many calls were compared, and what is wrong."""
    wrong = []
    g = truth.Graph(body)
    places = places_of(run, generator.inner, wrong)
    single = compare_loops(g, places, wrong)
    if not wrong:
        pairs = [(a, b) for a in single for b in single if a != b]
        for a, b in pairs if len(pairs) <= PAIRS else run.random.sample(pairs, PAIRS):
            wrong += compare_two(g, (a, b), *single[a], *single[b])
    return sum(len(s) for s in places.values()), wrong


def judge(body, generator, number):
    """Runs the function. How many calls were compared, and what is wrong."""
    global names
    text = functions.whole(generator.kind, body)
    run = Run(number)
    names = {name: getattr(run, name) for name in ('c', 'w', 't', 'r', 'n', 'm', 'y', 'a', 'ar', 'am')}
    names['E'] = E
    code = compile(text, 'random%d.py' % number, 'exec')
    if generator.kind in ('module', 'class'):
        observe(run, generator.kind, code)
    else:
        exec(code, names)
        observe(run, generator.kind, names['f'])
    return compare(body, generator, run)


# ---- smaller functions

def smaller(body):
    """Bodies that are less by a statement, or by all of a statement but one of its bodies."""
    for i, s in enumerate(body):
        yield body[:i] + body[i + 1:]
        for inner in functions.bodies(s) if s[0] != 'match' else [case[1] for case in s[1]]:
            yield body[:i] + inner + body[i + 1:]
        for changed in smaller_within(s):
            yield body[:i] + [changed] + body[i + 1:]


def smaller_within(s):
    if s[0] == 'match':
        for i, (test, case) in enumerate(s[1]):
            for less in smaller(case):
                yield ('match', s[1][:i] + [(test, less)] + s[1][i + 1:])
        return
    for i, part in enumerate(s):
        if isinstance(part, tuple) and part[0] in ('w', 'not', 'and', 'or'):
            for test in (('t',),) + part[1:] if part[0] != 'w' else (('t',),):
                yield s[:i] + (test,) + s[i + 1:]
        elif isinstance(part, list) and part and isinstance(part[0], list):
            for j, inner in enumerate(part):
                yield s[:i] + (part[:j] + part[j + 1:],) + s[i + 1:]
                for less in smaller(inner):
                    yield s[:i] + (part[:j] + [less] + part[j + 1:],) + s[i + 1:]
        elif isinstance(part, list):
            for less in smaller(part):
                yield s[:i] + (less,) + s[i + 1:]


def give_up(*_):
    raise TimeoutError


def is_still_wrong(body, generator, number):
    """What has become smaller may never end."""
    signal.setitimer(signal.ITIMER_VIRTUAL, 1)
    try:
        return body and judge(body, generator, number)[1]
    except (SyntaxError, IndexError, TypeError, TimeoutError):
        return []
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def shrink(body, generator, number):
    tries = int(os.environ.get("SHRINK_TRIES", SHRINK_TRIES))
    changed = True
    while changed and tries > 0:
        changed = False
        for less in smaller(body):
            tries -= 1
            if tries < 0 or is_still_wrong(less, generator, number):
                changed, body = tries >= 0, less if tries >= 0 else body
                break
    return body


def main():
    count, seed = int(sys.argv[2]), int(sys.argv[3])
    compared, bad, endless = 0, 0, 0
    signal.signal(signal.SIGVTALRM, give_up)
    for number in range(count) if len(sys.argv) < 5 else [int(sys.argv[4])]:
        generator = functions.Generator(random.Random('%d %d' % (seed, number)))
        body = generator.body(0, 0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 10, 1)
        try:
            calls, wrong = judge(body, generator, number)
        except TimeoutError:
            endless += 1
            continue
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        compared += calls
        if wrong:
            bad += 1
            if bad <= 3:
                body = shrink(body, generator, number)
                print('function %d of seed %d:' % (number, seed), *judge(body, generator, number)[1][:5], sep='\n  ')
                print(functions.whole(generator.kind, body))
    if endless:
        print('%d functions do not end, and are left out' % endless)
    print('%d functions, %d calls, %d wrong' % (count, compared, bad))
    return bad != 0


sys.exit(main())
