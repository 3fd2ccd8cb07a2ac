"""Calls in all shapes of code, each with its truth: how many loops of which frames it stands in.

here(n, m, ...) says: n loops in the frame that calls it, m in the frame around that, and so on, outermost last. As
many frames are compared as there are numbers.
"""
import asyncio
import contextlib
import random
import sys

from place import finish, here

NEW = sys.version_info >= (3, 12)


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
                here(0, 1)
                break_out = True
                if break_out:
                    return
        f()


def again(chance=random.Random(1)):
    return chance.random() < 0.6


def tests_of_several_parts():
    while not again() or (here(1) or again()):
        try:
            here(1)
            continue
        except KeyError:
            here(1)
    while again() and (here(1) or again()):
        try:
            here(1)
            if again():
                continue
        except KeyError:
            pass
        here(1)


def continued_within():
    while again():
        while again():
            here(2)
            continue
    while again():
        with contextlib.nullcontext():
            here(1)
            continue
        here(1)


def forever_in_a_while():
    while again():
        while True:
            here(2)
            if again():
                break


def forever_twice():
    rounds = 0
    while True:
        while True:
            here(2)
            if again():
                break
            if again():
                continue
            here(2)
        here(1)
        rounds += 1
        if rounds < 3:
            continue
        here(1)
        if rounds == 5:
            here(0)
            break


def forever_and_a_while():
    rounds = 0
    while True:
        while again():
            here(2)
        here(1)
        rounds += 1
        if rounds == 3:
            here(0)
            break


def raise_error():
    raise KeyError


def one_swallows():
    for i in range(2):
        with contextlib.nullcontext():
            here(1)
            if i == 1:
                here(0)
                break
    with contextlib.suppress(KeyError):
        return raise_error()
    for i in range(2):
        with contextlib.suppress(KeyError):
            here(1)
            return raise_error() if i < 3 else here(1)
        here(1)


class Batches:
    """Says how many loops its own frame stands in that of who iterates, and what it does at its end."""
    def __init__(self, outside, end):
        self.outside, self.end, self.left = outside, end, 2

    def __iter__(self):
        return self

    def __next__(self):
        if self.left == 0:
            self.end(self.outside)
            raise StopIteration
        self.left -= 1
        here(0, self.outside + 1)
        return self.left


class EndingBatches(Batches):
    def __next__(self):
        if self.left == 0:
            here(0, self.outside + 1)
            if self.outside == 7:
                return 0
            here(0, self.outside)
            raise StopIteration
        try:
            if self.left == 1:
                here(0, self.outside + 1)
                raise KeyError
        except KeyError:
            here(0, self.outside + 1)
        self.left -= 1
        return self.left


def end(outside):
    here(0, 0, outside)


def iterators():
    for _ in Batches(0, end):
        here(1)
    for i in range(2):
        here(1)
        for _ in EndingBatches(1, end):
            here(2)
        [here(1 if not NEW else 2) for _ in Batches(0 if not NEW else 1, end)]
    here(0)


def iterators_in_generators():
    while True:  # what next() gets may be swallowed
        try:
            here(1)
            next(Caught(1))
        except StopIteration:
            here(0)
            break


class Caught:
    def __init__(self, loops):
        self.loops = loops

    def __next__(self):
        here(0, self.loops)
        raise StopIteration


SHAPES = [iterators, iterators_in_generators, plain, leaving, comprehensions, generators, inner, operators, text, nested, tests_of_several_parts, continued_within,
          forever_in_a_while, one_swallows]
if sys.version_info >= (3, 10):  # in 3.9 a loop that begins with a loop has the same head, and is one with it
    SHAPES += [forever_twice, forever_and_a_while]
for _ in range(20):  # specialised after some rounds
    for shape in SHAPES:
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
