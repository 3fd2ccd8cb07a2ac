"""Conditions in loops: where calls stand whose branch ends the loop, as variables tell, and which conditions change from round to
round.

here(n, condition) says: n loops in the frame that calls it, and what is known of the condition that leads to the call.
"""
import sys

from place import expect, finish, frames


def here(loops, condition=''):
    frame = frames()[:-1][-1]
    seen = sum(node.is_loop for node in frame), frame[-1].condition
    expect(seen == (loops, condition), 'line %d: %s, not %s' % (sys._getframe(1).f_lineno, seen, (loops, condition)))


def ends_by_a_flag(n):
    done = False
    i = 0
    while not done:
        if i < n:
            here(1)
            i += 1
        else:
            here(0)
            done = True
    here(0)


def ends_by_a_flag_of_epochs(n):
    for _ in range(2):
        i, going = 0, 1
        while going:
            if i < n:
                here(2)
                i += 1
                continue
            here(1)
            going = 0
        here(1)


def ends_by_none(n):
    item = 0
    while item is not None:
        if item == n:
            here(0)
            item = None
        else:
            here(1)
            item += 1


def ends_by_a_number(n):
    state = 0
    i = 0
    while state != 2:
        if i < n:
            here(1, 'changes')
            i += 1
        elif state == 0:
            here(1, 'changes')
            state = 1
        else:
            here(0)
            state = 2


def may_go_on(n, flag):
    done = False
    i = 0
    while not done:
        if i < n:
            here(1, 'changes')
            i += 1
        else:
            here(1, 'changes')
            done = i >= 2 or flag
            i = 9


def ends_by_what_another_function_sees(n):
    done = False
    i = 0

    def stop():
        nonlocal done
        done = True
    while not done:
        if i < n:
            here(1, 'changes')
            i += 1
        else:
            here(1, 'changes')
            stop()


def states():
    state = epoch = i = 0
    while epoch < 2:
        if state == 0:
            if i >= 2:
                state = 1
                i = 0
                continue
            here(1, 'changes')
            i += 1
        elif state == 1:
            if i >= 1:
                state = 2
                continue
            here(1, 'changes')
            i += 1
        else:
            here(1, 'changes')
            epoch += 1
            i = state = 0


def by_rank(rank):
    for _ in range(2):
        if rank == 0:
            here(1, 'fixed')
        else:
            here(1, 'fixed')
    for i, _ in enumerate('ab'):
        if i == 1:
            here(1, 'changes')
        if rank == 0:
            for _ in range(2):
                here(2)
        elif rank == 1 and i == 0:
            here(1, 'changes')
        else:
            here(1, 'changes')
    for i in range(2):
        if i == 1:
            here(1, 'changes')
        elif frames() is None:
            pass
        else:
            here(1, 'changes')


class Trainer:
    def __init__(self, rank):
        self.rank = rank
        self.done = False
        self.count = 0

    def run(self):
        while self.count < 3:
            if self.rank == 0:
                here(1)
            else:
                here(1)
            if self.done:
                here(1, 'changes')
                self.done = False
            else:
                here(1, 'changes')
                self.done = True
            if self.count % 2:
                here(1, 'changes')
            self.count += 1


for number in range(4):
    ends_by_a_flag(number)
    ends_by_a_flag_of_epochs(number)
    ends_by_none(number)
    ends_by_a_number(number)
    may_go_on(number, True)
    ends_by_what_another_function_sees(number)
    states()
    by_rank(number)
    Trainer(number).run()
finish()
