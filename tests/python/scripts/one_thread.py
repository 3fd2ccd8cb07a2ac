"""Rounds of loops of a thread other than the main one, which makes all the calls, until another one makes some: one_thread.py PROBE."""
import ctypes
import threading

from place import expect, finish, probe


def rounds():
    numbers = (ctypes.c_uint32 * 32)()
    n = probe.probe_rounds(numbers, 16)
    return [(numbers[2 * i], numbers[2 * i + 1]) for i in range(n)]


def come(counts, names):
    for number in range(3):
        found = rounds()
        expect(found == [(number + 1, 3) if counts else (0, 0)], f'{names}: {found} in round {number}')


def of_both(go_on):
    """The same thread before and after another one has come."""
    come(True, 'the only one')
    go_on.set()
    other.join()
    come(False, 'of several')


def of_another(go_on):
    go_on.wait()
    come(False, 'another')


others = threading.Event()
other = threading.Thread(target=of_another, args=(others,))
other.start()
first = threading.Thread(target=of_both, args=(others,))
first.start()
first.join()
for number in range(2):
    expect(rounds() == [(number + 1, 2)], f'the main thread: {rounds()}')
finish()
