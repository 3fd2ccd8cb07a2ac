"""In which rounds of its loops a call is made, as the iterators of `for` say: rounds.py PROBE.

Each call is told what to expect by the program itself, outermost loop first; None: a loop that does not say it.
"""
import asyncio
import contextlib
import ctypes
import sys
import threading

from place import expect, finish, probe

calls = 0


def said():
    """Of each loop around the call the round, from 1 on, and how many there are."""
    numbers = (ctypes.c_uint32 * 32)()
    n = probe.probe_rounds(numbers, 16)
    return [(numbers[2 * i], numbers[2 * i + 1]) for i in range(n)]


def totals(*right):
    expect([total for _, total in said()] == list(right), f'{said()}, of {list(right)}')


def check(*rounds):
    global calls
    calls += 1
    found = [number - 1 if number else None for number, _ in said()]
    expect(found == list(rounds), f'{found} instead of {list(rounds)}')


def hide(n):
    """An iterator that says nothing."""
    return iter(set(range(n)))


def give(n):
    """One that nothing is known of: what it yields behind the loop is no round of that."""
    for i in range(n - 1):
        yield i
    yield n - 1


def pass_on(items):
    for item in items:
        yield item


def pass_all(items):
    yield from items


class Progress:
    """As tqdm is made: two loops, of which one is gone through."""

    def __init__(self, items, disable):
        self.items, self.disable, self.n = items, disable, 0

    def __iter__(self):
        items = self.items
        if self.disable:
            for item in items:
                yield item
            return
        try:
            for item in items:
                yield item
                self.n += 1
                if self.n > 10:
                    self.update()
        finally:
            self.close()

    def update(self):
        pass

    def close(self):
        self.n = 0


def pass_twice(items):
    return pass_on(pass_on(items))


def shared_out(items, world):
    for item in items:
        if item % world:
            continue
        yield item


def twice(items):
    for item in items:
        yield item
        yield item


def one_behind_the_other(items):
    for item in items:
        yield item
    for item in items:
        yield item


def while_loop(n):
    i = 0
    while i < n:
        yield i
        i += 1


def within_another(items):
    for item in items:
        for _ in range(1):
            yield item


def from_within(items):
    for item in items:
        yield from [item]


class Loader:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(give(self.n))

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return i


def inner(*around):
    for i, _ in enumerate(give(2)):
        check(*around, i)


def kinds():
    for i in range(3):
        check(i)
    for i, _ in enumerate('ab'):
        check(i)
    for n, _ in zip(range(2), [1, 2]):
        check(n)
    for n, _ in zip(range(2), give(2)):
        check(None)
    for n, *_ in zip(*[range(2)] * 9):
        check(None)
    for n, _ in enumerate([5, 6, 7]):
        check(n)
    n = 0
    for _ in ['a', 'b']:
        check(n)
        n += 1
    n = 0
    for _ in ('a', 'b', 'c'):
        check(n)
        n += 1
    for n in {0: 5, 1: 6}:
        check(n)
    for _ in give(2):
        check(None)
    for _ in hide(2):
        check(None)
    for _ in Loader(2):
        check(None)
    n = 0
    while n < 2:
        check(None)
        n += 1


def last(*right):
    """The innermost loops."""
    global calls
    calls += 1
    found = said()[-len(right):]
    expect(found == list(right), f'{found} instead of {list(right)}')


def go_through(how, items, total):
    n = 0
    for _ in how(items):
        n += 1
        last((n if total else 0, total))
        for i, _ in enumerate(how([1, 2])):
            last((n if total else 0, total), (i + 1, 2 if total else 0))


def generators():
    """What goes through a list or numbers once, and gives something in each round, counts as these do."""
    since_3_11 = 3 if sys.version_info >= (3, 11) else 0
    for items in ([5, 6, 7], range(3), (1, 2, 3)):
        go_through(pass_on, items, 3)
        go_through(pass_all, items, since_3_11)
        go_through(lambda items: Progress(items, True), items, 3)
        go_through(lambda items: Progress(items, False), items, 3)
        go_through(lambda items: pass_on(Progress(items, True)), items, 3)
        go_through(lambda items: pass_all(Progress(items, False)), items, since_3_11)
    # The first two have an iterator as a variable, too.
    for how in (pass_twice, lambda items: pass_on(enumerate(items)), lambda items: shared_out(items, 1), twice, one_behind_the_other, lambda items: while_loop(3), within_another, from_within, lambda items: pass_on(hide(3))):
        for _ in how(range(3)):
            last((0, 0))
    kept = pass_on([1, 2, 3])
    for _ in kept:
        last((0, 0))
    within = iter([1, 2, 3])
    for _ in pass_on(within):
        last((0, 0))


def counts():
    """How many rounds there are, as far as the iterator knows it. Whoever begins in the middle is counted from 0 on since 3.12."""
    for _ in range(3):
        for _ in [7, 8]:
            totals(3, 2)
        for _ in ('a', 'b', 'c', 'd'):
            totals(3, 4)
        for _ in enumerate([1, 2, 3]):
            totals(3, 3)
        for _ in enumerate(range(5)):
            totals(3, 5)
        for _ in enumerate(give(2)):
            totals(3, 0)
        for _ in give(2):
            totals(3, 0)
        for i in range(2, 6):
            expect(said()[1] == ((i + 1, 6) if sys.version_info >= (3, 12) else (i - 1, 4)), f'{said()} in {i}')
        for i in range(0, 6, 2):
            expect(said()[1] == (i // 2 + 1, 3), f'{said()} in {i}')
        for i in range(1 << 30):
            totals(3, 0)
            if i == 1:
                break
        for i in range(3, 0, -1):
            expect(said()[1] == ((3999 - i, 4000) if sys.version_info >= (3, 12) else (4 - i, 3)), f'{said()} in {i}')
        for items in ([1, 2, 3], (1, 2, 3)):
            for i in reversed(items):
                expect(said()[2] == (3999 - i, 4000), f'{said()} in {i}')
        for i in range(-3, 0):
            expect(said()[1] == ((3999 + i, 4000) if sys.version_info >= (3, 12) else (i + 4, 3)), f'{said()} in {i}')
        for i in range(-1, 2):
            expect(said()[1] == ((0, 0) if i < 0 else (i + 1, 2)) if sys.version_info >= (3, 12) else (i + 2, 3), f'{said()} in {i}')
        models = {'a': 0, 'b': 1, 'c': 2}
        del models['b']
        for i in models.values():
            expect(said()[1] == (i // 2 + 1, 2), f'{said()} in {i}')
        for name, i in models.items():
            expect(said()[1] == (i // 2 + 1, 2), f'{said()} in {name}')
        for name in reversed(models):
            expect(said()[1] == (2 - models[name] // 2, 2), f'{said()} in {name}')
        for i, _ in zip([1, 2], 'abc'):
            expect(said()[1] == (0, 0), f'{said()} in {i}')
        for i, *_ in zip([1, 2, 3, 4], range(3), models, {5: 6, 7: 8, 9: 10}.values()):
            expect(said()[1] == (i, 2), f'{said()} in {i}')


def shared():
    """What the program may take from beside the loop tells nothing."""
    it = iter([1, 2, 3])
    for _ in it:
        check(None)
    it = iter(range(3))
    for i, _ in enumerate(it):
        expect(said() == [(i + 1, 0)], f'{said()} in {i}')
    it = enumerate([1, 2])
    for _ in it:
        check(None)
    it = iter([1, 2, 3])
    for _ in zip([1, 2], it):
        check(None)
    for _ in zip(it, it):
        check(None)
    for i, _ in enumerate([1, 2], 7):
        check(i - 7)


def nested():
    for epoch in range(3):
        check(epoch)
        for i, _ in enumerate(Loader(2)):
            check(epoch, i)
            for _ in give(1):
                check(epoch, i, None)
                for k in range(2):
                    check(epoch, i, None, k)
        k = 0
        while k < 2:
            for i in range(2):
                check(epoch, None, i)
            k += 1
        inner(epoch)
        for meter in [1, 2]:
            check(epoch, meter - 1)


def within():
    with contextlib.suppress(KeyError):
        for epoch in range(2):
            with threading.Lock():
                for i in range(2):
                    try:
                        check(epoch, i)
                        for k in range(2):
                            try:
                                check(epoch, i, k)
                            finally:
                                check(epoch, i, k)
                    finally:
                        check(epoch, i)


def leaving():
    """Where a loop always ends behind a call, that does not stand in it. Its iterator is there: which is which is not known."""
    for epoch in range(2):
        for _ in range(3):
            check(None)
            break


def left():
    for epoch in range(2):
        for a in range(2):
            for b in range(2):
                found = said()
                for (number, _), right in zip(found, ([epoch], [epoch, b], [epoch, a, b])[len(found) - 1]):
                    expect(number in (0, right + 1), f'{found} in {epoch}, {a}, {b}')
            break


def comprehension():
    """What has a function of its own has the iterator as an argument, too."""
    for epoch in range(2):
        [check(epoch, i if sys.version_info >= (3, 12) else None) for i in range(2)]
        list(check(epoch, None) for i in range(2))


def deep(depth, *around):
    for i in range(2):
        check(*around, i)
        if depth:
            deep(depth - 1, *around, i)


def other_thread():
    """What each thread comes to is in rounds of its own."""
    def run():
        for _ in range(2):
            check(None)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


async def awaited():
    for epoch in range(2):
        await also_awaited(epoch)


async def also_awaited(epoch):
    for i in range(2):
        check(epoch, i)


async def trained():
    """By asyncio's loop, which is none of the program."""
    for epoch in range(2):
        await asyncio.sleep(0)
        await also_awaited(epoch)
        check(epoch)


def meters(epoch):
    for meter in (1, 2):
        check(epoch, 0 if sys.version_info >= (3, 12) else None, meter - 1)


class Trainer:
    def fit(self):
        for epoch in range(2):
            self.call(lambda: [meters(epoch) for _ in range(1)])

    def call(self, what):
        return what(*(), **{})


def outermost(again):
    numbers = (ctypes.c_uint32 * 2)()
    return (numbers[0], numbers[1]) if probe.probe_round(numbers, again) else None


def one_call(again):
    return outermost(again)


def go_round(around, kept):
    """The outermost loop of the program. kept: what was found before is asked for again, also where another iterator has taken the place of that one."""
    seen = []
    for _ in around:
        for _ in range(2):
            seen.append(one_call(kept or len(seen) > 0))
    first = seen[0][0]
    expect([number for number, _ in seen] == [first, first, first + 1, first + 1, first + 2, first + 2], f'{seen} of {around}')
    expect({total for _, total in seen} == {first + 2}, f'totals: {seen}')


def read_again():
    go_round([5, 6, 7], False)
    go_round(range(3), True)
    go_round((1, 2, 3), True)
    go_round([4, 5, 6], True)
    go_round(range(1, 4), False)
    go_round(Progress([5, 6, 7], True), False)
    go_round(Progress(range(3), False), True)
    go_round(Progress(Progress((1, 2, 3), True), False), True)
    go_round([4, 5, 6], True)
    go_round(Progress([1, 2, 3], True), True)
    expect(one_call(True) is None, 'the frame is gone')
    cost = probe.probe_round_cost()
    expect(cost < 2000, f'cost: {cost} ns')


exec('for epoch in range(2):\n for i in [0, 1]:\n  check(epoch, i)')
kinds()
generators()
counts()
shared()
nested()
within()
leaving()
left()
comprehension()
other_thread()
read_again()
Trainer().fit()
deep(3)
with contextlib.suppress(StopIteration):
    awaited().send(None)
asyncio.run(trained())
for epoch in range(2):
    check(epoch)
    inner(epoch)
expect(calls > 150, f'{calls} calls')
finish()
