"""What generators call: in which loops of theirs, and of those that ask them, it stands. here: shapes.py."""
import sys

from place import finish, here

NEVER = len(sys.argv) > 99


def generator_of(batches):
    """What it does when it yields nothing more ends the loop that asks it."""
    for _ in batches:
        yield here(1, 1)
    here(0, 0)


def generator_that_goes_on():
    for _ in range(2):
        yield here(1, 1)
    here(0, 1)
    yield here(0, 1)
    try:
        here(0, 1)
        yield here(0, 1)
    finally:
        here(0, 0)
    while NEVER:
        here(1, 0)


def generator_from(batches):
    here(0, 1)
    yield from generator_of_two(batches)
    here(0, 0)


def generator_from_two(batches):
    yield from generator_that_is_not_the_last(batches)
    yield from generator_of_two(batches)


def generator_that_is_not_the_last(batches):
    for _ in batches:
        yield here(1, 0, 1)
    here(0, 0, 1)


def generator_asked_by_another():
    for _ in range(2):
        yield here(1, 1, 1)
    here(0, 0, 0)


def generator_asked_by_one_that_goes_on():
    yield here(0, 1, 1)
    here(0, 0, 1)


def passed_on(items):
    """As tqdm does."""
    try:
        for item in items:
            yield item
            here(1, 1)
    finally:
        here(0, 0)


def passed_on_twice(items):
    for item in items:
        yield item
    yield here(0, 1)


def generator_of_two(batches):
    for _ in batches:
        yield here(1, 0, 1)
    here(0, 0, 0)


def generators():
    for _ in generator_of([1, 2]):
        here(1)
    for _ in generator_that_goes_on():
        here(1)
    for _ in generator_from([1, 2]):
        here(1)
    for _ in generator_from_two([1, 2]):
        here(1)
    for _ in passed_on(generator_asked_by_another()):
        here(1)
    for _ in passed_on_twice(generator_asked_by_one_that_goes_on()):
        here(1)


generators()
for _ in range(2):
    generators()
finish()
