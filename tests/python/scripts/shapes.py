"""Calls in all shapes of code, each with its truth: how many loops of which frames it stands in.

here(n, m, ...) says: n loops in the frame that calls it, m in the frame around that, and so on, outermost last. As
many frames are compared as there are numbers.
"""
import asyncio
import contextlib
import sys

from place import fail, finish, frames

NEW = sys.version_info >= (3, 12)


def here(*loops):
    seen = [sum(node.is_loop for node in frame) for frame in reversed(frames()[:-1])][:len(loops)]
    if seen != list(loops):
        fail('line %d: %s loops, not %s' % (sys._getframe(1).f_lineno, seen, list(loops)))


def plain():
    here(0)
    for i in range(2):
        here(1)
        while i < 1:
            here(2)
            i += 1
        else:
            here(1)
        if i == 5:
            here(1)
            continue
        with contextlib.nullcontext():
            here(1)
            if i:
                here(0)
                break
    else:
        here(0)
    here(0)


def leaving():
    rounds = 0
    while True:
        here(1)
        try:
            here(1)
            raise KeyError
        except KeyError:
            here(1)
            for _ in range(2):
                here(2)
            rounds += 1
            if rounds > 1:
                here(0)
                break
        finally:
            pass
    while True:
        here(0)
        break
    for _ in range(2):
        with contextlib.nullcontext():
            here(0)
            return


def comprehensions():
    [here(1, 0) if not NEW else here(1) for _ in range(2)]
    {here(1, 0) if not NEW else here(1) for _ in range(2)}
    list(here(1, 0) for _ in range(2))
    for _ in range(2):
        [[here(1, 1, 1) if not NEW else here(3) for _ in range(1)] for _ in range(1)]


def numbers():
    for i in range(2):
        here(1, 1)
        yield i
    yield from more()


def more():
    rounds = 0
    while True:
        here(1, 0, 1)
        yield 7
        rounds += 1
        if rounds == 2:
            return


def generators():
    for _ in numbers():
        here(1)
    sum(numbers_in_sum())


def numbers_in_sum():
    here(0, 0)
    yield 1


async def leaf():
    here(0, 1)
    await asyncio.sleep(0)
    here(0, 1)


async def work():
    for _ in range(2):
        await leaf()
    async with Manager() as m:
        here(0)
        async for _ in m:
            here(1)


class Manager:
    async def __aenter__(self):
        here(0, 0)
        return self

    async def __aexit__(self, *_):
        here(0, 0)

    def __aiter__(self):
        return self.all()

    async def all(self):
        for i in range(2):
            here(1, 1)
            yield i


def decorated(function):
    def around(*arguments):
        for _ in range(2):
            function(*arguments)
    return around


@decorated
def inner():
    here(0, 1, 2)


class Body:
    for _ in range(2):
        here(1, 0)
    call = lambda self: here(0, 0)  # noqa: E731

    @property
    def value(self):
        here(0, 1)
        return 1

    def __add__(self, other):
        here(0, 1)
        return self

    def __enter__(self):
        here(0, 1)

    def __exit__(self, *_):
        here(0, 1)


def operators():
    body = Body()
    body.call()
    for _ in range(40):
        body.value
        body + 1
        with body:
            pass
        sorted([2, 1], key=lambda _: here(0, 1) or 0)


def text():
    for _ in range(2):
        exec('for _ in range(2):\n here(1, 1)')
        eval('here(0, 1)')


def nested():
    for _ in range(2):
        def f():
            while True:
                here(1, 1)
                break_out = True
                if break_out:
                    return
        f()


for _ in range(20):  # specialised after some rounds
    for shape in plain, leaving, comprehensions, generators, inner, operators, text, nested:
        shape()
asyncio.run(work())
if sys.version_info >= (3, 10):
    exec('''
def matching():
    for i in range(4):
        match i:
            case 0:
                here(1)
            case 1 | 2 if here(1) is None:
                here(1)
            case _:
                here(0)
                return
matching()
''')
finish()
