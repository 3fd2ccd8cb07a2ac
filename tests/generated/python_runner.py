"""What generated Python programs import, and what runs them: as runner.c, with ranks forked from this interpreter.

    python_runner.py PROGRAMS.py RESULTS LIMIT_S [PROGRAM...]

GENERATED_RANK names the library made of rank.c and job.c.
"""

import asyncio
import collections
import ctypes
import functools
import gc
import os
import sys

ncclInt32, ncclInt64, ncclFloat, ncclDouble = 2, 4, 7, 8
ncclSum, ncclMax, ncclAvg = 0, 2, 4
COLLECTIVES = ("all_reduce", "reduce_scatter", "broadcast", "reduce", "all_to_all", "ring", "forward", "backward")
RANKS_MAX = 6
ENDING_RETURN = 3

Point = collections.namedtuple("Point", "collective count datatype operation root axis")

_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
nccl = ctypes.CDLL("libnccl.so.2")
nccl.ncclAllReduce.argtypes = [_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER]
nccl.ncclReduceScatter.argtypes = nccl.ncclAllReduce.argtypes
nccl.ncclBroadcast.argtypes = nccl.ncclAllReduce.argtypes
nccl.ncclReduce.argtypes = [_POINTER, _POINTER, _SIZE, _INT, _INT, _INT, _POINTER, _POINTER]
nccl.ncclSend.argtypes = nccl.ncclRecv.argtypes = [_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER]


class CPoint(ctypes.Structure):
    _fields_ = [(name, _INT) for name in Point._fields]


class CSetup(ctypes.Structure):
    _fields_ = [(name, _INT) for name in ("nranks", "tensor", "arrangement", "split", "run_ahead", "ending")]
    _fields_ += [("pauses_us", ctypes.POINTER(_INT)), ("points", ctypes.POINTER(CPoint))]


class CRank(ctypes.Structure):
    _fields_ = [("rank", _INT), ("nranks", _INT), ("step", _INT), ("send", _POINTER), ("receive", _POINTER),
                ("stream", _POINTER), ("comms", _POINTER * 3)]


_rank = ctypes.CDLL(os.environ["GENERATED_RANK"]) if "GENERATED_RANK" in os.environ else None
if _rank:
    _rank.job_make.restype = _POINTER
    _rank.job_reset.argtypes = [_POINTER, ctypes.POINTER(CSetup)]
    _rank.job_enter.argtypes = [_POINTER, _INT]
    _rank.job_enter.restype = ctypes.POINTER(CRank)
    _rank.job_leave.argtypes = [ctypes.POINTER(CRank)]
    _rank.job_watch.argtypes = [_POINTER, ctypes.POINTER(_INT), ctypes.c_double]
    _rank.job_write.argtypes = [_POINTER, _INT, _INT]


class Rank:
    """One rank, as a program sees it."""

    def __init__(self, pointer):
        self._pointer, self._c = pointer, pointer.contents
        self.rank, self.nranks, self.stream = self._c.rank, self._c.nranks, self._c.stream
        self.comms = list(self._c.comms)
        self.arguments = None

    @property
    def step(self):
        return self._c.step

    def before(self, point, epoch, i):
        _rank.rank_before(self._pointer, point, epoch, i)
        self.send, self.receive = self._c.send, self._c.receive

    def begun(self, number, epoch, i, points):
        """As before; the function to call, and self.arguments for it."""
        self.before(number, epoch, i)
        point = points[number]
        middle = {"all_reduce": [point.operation], "reduce_scatter": [point.operation], "broadcast": [point.root],
                  "reduce": [point.operation, point.root]}[point.collective]
        self.arguments = [self.send, self.receive, point.count, point.datatype, *middle, self.comms[point.axis], self.stream]
        return {"all_reduce": nccl.ncclAllReduce, "reduce_scatter": nccl.ncclReduceScatter,
                "broadcast": nccl.ncclBroadcast, "reduce": nccl.ncclReduce}[point.collective]

    def after(self, result):
        _rank.rank_after(self._pointer, result)

    def load(self):
        _rank.rank_load(self._pointer)

    def synchronise(self):
        _rank.rank_synchronise(self._pointer)

    def value(self):
        return _rank.rank_value(self._pointer)

    def met(self):
        return _rank.rank_met(self._pointer)

    def draw(self, own, a, b, salt):
        return _rank.rank_draw(self._pointer, own, a, b, salt)

    def data(self, epoch, i, salt):
        return _rank.rank_data(self._pointer, epoch, i, salt)


class Skip(Exception):
    """What the programs raise."""


def all_to_all(c, point):
    size = point.count * (4 if point.datatype in (ncclFloat, ncclInt32) else 8)
    nccl.ncclGroupStart()
    for peer in range(c.nranks):
        nccl.ncclSend(c.send + peer * size, point.count, point.datatype, peer, c.comms[point.axis], c.stream)
        nccl.ncclRecv(c.receive + peer * size, point.count, point.datatype, peer, c.comms[point.axis], c.stream)
    return nccl.ncclGroupEnd()


def ring(c, point):
    n = c.nranks
    nccl.ncclGroupStart()
    nccl.ncclSend(c.send, point.count, point.datatype, (c.rank + 1) % n, c.comms[point.axis], c.stream)
    nccl.ncclRecv(c.receive, point.count, point.datatype, (c.rank + n - 1) % n, c.comms[point.axis], c.stream)
    return nccl.ncclGroupEnd()


def through_stages(c, point, before, after):
    result = 0
    if 0 <= before < c.nranks:
        result = nccl.ncclRecv(c.receive, point.count, point.datatype, before, c.comms[point.axis], c.stream)
    if 0 <= after < c.nranks and result == 0:
        result = nccl.ncclSend(c.send, point.count, point.datatype, after, c.comms[point.axis], c.stream)
    return result


def forward(c, point):
    return through_stages(c, point, c.rank - 1, c.rank + 1)


def backward(c, point):
    return through_stages(c, point, c.rank + 1, c.rank - 1)


def timed(function):
    @functools.wraps(function)
    def wrapper(*arguments, **names):
        return function(*arguments, **names)
    return wrapper


def batches_of(n):
    for i in range(n):
        yield i


async def async_batches(n):
    for i in range(n):
        await pause()
        yield i


async def pause():
    await asyncio.sleep(0)


def c_setup(values, pauses, points):
    """The C structure; what it points to lives as long as it does."""
    made = CSetup(*values)
    made.pauses_us = (_INT * RANKS_MAX)(*pauses)
    made.points = (CPoint * len(points))(*[CPoint(COLLECTIVES.index(point.collective), *point[1:]) for point in points])
    return made


def be_rank(job, rank, function, returns, _):
    pointer = _rank.job_enter(job, rank)
    function(Rank(pointer))
    status = _rank.job_leave(pointer)
    if returns:
        sys.exit(status)
    os._exit(status)  # its communicators are gone: an interpreter's slow end would show nothing


def run(job, program, limit_s):
    """Returns in a rank what it is to do: no loop of this file is to be around its program."""
    function, values, pauses, points = program
    setup = c_setup(values, pauses, points)
    _rank.job_reset(job, ctypes.byref(setup))
    ranks = []
    for rank in range(setup.nranks):
        pid = os.fork()
        if pid == 0:
            return rank, function, values[-1] == ENDING_RETURN, setup
        ranks.append(pid)
    _rank.job_watch(job, (_INT * len(ranks))(*ranks), limit_s)
    return None


def main(arguments):
    path, results, limit_s = arguments[:3]
    folder, name = os.path.split(os.path.abspath(path))
    sys.path.insert(0, folder)
    programs = __import__(name[:-len(".py")]).PROGRAMS
    file = os.open(results, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    job, mine = _rank.job_make(), None
    gc.freeze()  # or children copy what they only look at
    for number in map(int, arguments[3:]) if arguments[3:] else range(len(programs)):
        mine = run(job, programs[number], float(limit_s))
        if mine:
            break
        if not _rank.job_write(job, number, file):
            return 1
    if mine:
        be_rank(job, *mine)
    return 0


if __name__ == "__main__":
    sys.modules["python_runner"] = sys.modules["__main__"]
    sys.exit(main(sys.argv[1:]))
