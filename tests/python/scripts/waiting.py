"""What a thread without Python frames is told while a Python thread waits for it."""
import os
import sys
import tempfile
import threading
import time

import place
from place import engine, expect, finish

# A library of this name, whose functions call what waits: what torch.autograd is to PyTorch.
folder = tempfile.mkdtemp()
os.makedirs(folder + '/torch/autograd')
for name, text in ('/torch/__init__.py', ''), ('/torch/autograd/__init__.py', 'def backward(f):\n    return f()\n'):
    with open(folder + name, 'w') as file:
        file.write(text)
# engine() itself is Python: what stands in C is the call in it, which has to be one of torch.autograd's.
exec(compile('''
def _engine_run_backward():
    numbers = (ctypes.c_uint32 * 130)()
    n = probe.probe_engine(numbers)
    return numbers[0], read(numbers[2:], n), numbers[1], probe.probe_engine_cost()


def rest():
    ctypes.CDLL(None).usleep(800000)


def grad(f):
    f()


def backward():
    ctypes.CDLL(None).usleep(800000)
''', folder + '/torch/autograd/graph.py', 'exec'), place.__dict__)
waiting = place._engine_run_backward
KNOWS_THREADS = sys.version_info >= (3, 11)


def text():
    place.probe.probe_engine_text.restype = place.ctypes.c_char_p
    return place.probe.probe_engine_text().decode()


def loops(nodes):
    return sum(node.is_loop for node in nodes)


def train():
    seen = set()
    for _ in range(3):
        of_it, nodes, own, cost = waiting()
        seen.add((of_it, tuple(nodes)))
        expect(own == 0, 'the thread itself has no frames')
        expect(not KNOWS_THREADS or cost < 20000, 'cost: %d ns' % cost)
    expect(len(seen) == 1, 'one place: %s' % seen)
    line = train.__code__.co_firstlineno + 3
    expect(not KNOWS_THREADS or 'waiting.py:%d in the loop of waiting.py:%d' % (line, line - 1) in text(), 'text: %s' % text())
    of_it, nodes = seen.pop()
    expect((of_it != 0) == KNOWS_THREADS and loops(nodes) == 1, 'in the loop: %s, %s' % (of_it, nodes))
    return of_it, nodes


def evaluate():
    return waiting()[:2]


a, b = train(), evaluate()
expect(not KNOWS_THREADS or a[0] != b[0], 'two places')
expect(loops(b[1]) == 0 and len(b[1]) > 0, 'no loop')

# Two threads, by turns.
def in_thread(found):
    found.append(waiting()[0])


turns, alone = [], []
for _ in range(4):
    alone.append(waiting()[0])
    thread = threading.Thread(target=in_thread, args=(turns,))
    thread.start()
    thread.join()
expect(len(set(turns)) == len(set(alone)) == 1, 'by turns: %s, %s' % (turns, alone))
expect(not KNOWS_THREADS or turns[0] not in (0, alone[0]), 'two threads')

# A function that is not of torch.autograd is not waited in.
of_it, nodes, own, cost = engine()
expect((of_it, nodes, text()) == (0, [], ''), 'nobody waits: %s, %s, %s' % (of_it, nodes, text()))

# A thread that waits for something else does not count; two that wait in backward at different places are none.
event = threading.Event()
thread = threading.Thread(target=event.wait)
thread.start()
expect(loops(evaluate()[1]) == 0 and len(evaluate()[1]) == len(b[1]), 'beside another thread')
event.set()
thread.join()
thread = threading.Thread(target=place.rest)
thread.start()
time.sleep(0.2)
expect(loops(evaluate()[1]) == 0 and len(evaluate()[1]) == len(b[1]), 'beside one that calls no engine')
thread.join()
thread = threading.Thread(target=place.grad, args=(place.rest,))
thread.start()
time.sleep(0.2)
works = waiting()
thread.join()
expect(works[:2] == (0, []), 'beside one that works in a backward pass: %s' % (works,))
thread = threading.Thread(target=place.backward)
thread.start()
time.sleep(0.2)
two = waiting()
thread.join()
expect(two[:2] == (0, []), 'two that wait: %s' % (two,))
finish()
