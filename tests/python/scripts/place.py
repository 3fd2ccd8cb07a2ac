"""For the scripts beside it: the probe library, whose name is the first argument, in Python's terms."""
import collections
import ctypes
import sys

probe = ctypes.CDLL(sys.argv[1])  # lets go of the GIL during calls
holding = ctypes.PyDLL(sys.argv[1])  # holds it
for library in probe, holding:
    library.probe_is_present.restype = ctypes.c_bool
    library.probe_exception.restype = library.probe_exception_of_main.restype = ctypes.c_bool
    library.probe_id.restype = ctypes.c_uint32
    library.probe_round.restype = ctypes.c_bool
    library.probe_cost.restype = library.probe_engine_cost.restype = library.probe_round_cost.restype = ctypes.c_double

class Node(collections.namedtuple('Node', 'id order since until is_loop is_ordered reach_from reach_to')):
    @property
    def condition(self):
        """Of the conditions that lead there."""
        return {0: '', 2: 'changes', 4: 'fixed'}.get(self.is_ordered & 6, 'both')

    @property
    def is_always(self):
        """Each round of the loop, or each call of the function, comes to it."""
        return bool(self.is_ordered & 8)


wrong = []


def read(numbers, n):
    return [Node(*numbers[8 * i:8 * i + 8]) for i in range(n)]


def nodes(library=probe):
    numbers = (ctypes.c_uint32 * 128)()
    return read(numbers, library.probe_nodes(numbers, 16))


def frames(library=probe):
    """The nodes of each frame, outermost first, without that of this function and of nodes()."""
    found, frame = [], []
    for node in nodes(library):
        frame.append(node)
        if not node.is_loop:
            found.append(frame)
            frame = []
    return found[:-1][:-1]


def text():
    room = ctypes.create_string_buffer(200)
    probe.probe_text(room, 200)
    return room.value.decode()


def engine():
    """The id and the nodes that a thread without frames gets, its own id, and what asking cost it."""
    numbers = (ctypes.c_uint32 * 130)()
    n = probe.probe_engine(numbers)
    return numbers[0], read(numbers[2:], n), numbers[1], probe.probe_engine_cost()


def fail(what):
    wrong.append(what)
    print(what)


def expect(condition, what):
    if not condition:
        fail(what)


def finish():
    print('%d wrong' % len(wrong))
    sys.exit(len(wrong) != 0)


def here(*loops):
    seen = [sum(node.is_loop for node in frame) for frame in reversed(frames()[:-1])][:len(loops)]
    if seen != list(loops):
        fail('line %d: %s loops, not %s' % (sys._getframe(1).f_lineno, seen, list(loops)))
