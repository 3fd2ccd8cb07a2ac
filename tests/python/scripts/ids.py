"""Ids: what makes them equal, and what makes them differ. With a second argument: prints one id and ends."""
import os
import subprocess
import sys
import threading

from place import expect, finish, holding, nodes, probe


def one():
    return probe.probe_id()


def two():
    return probe.probe_id()


if len(sys.argv) > 2:
    print(one())
    sys.exit()


def processes():
    def child(seed, folder):
        environment = dict(os.environ, PYTHONHASHSEED=seed)
        script, library = os.path.abspath(__file__), os.path.abspath(sys.argv[1])
        return subprocess.run([sys.executable, script, library, 'child'], env=environment, cwd=folder,
                              stdout=subprocess.PIPE, check=True).stdout
    a, b = child('1', '/'), child('2', '/tmp')
    expect(a == b and int(a) != 0, 'two processes: %s, %s' % (a, b))


def rounds():
    seen = {one() for _ in range(3000)}  # specialised on the way
    expect(len(seen) == 1 and 0 not in seen, 'rounds of one loop: %s' % seen)
    expect(one() != one(), 'two calls in one line are two places')
    expect(len({one(), two()}) == 2, 'two functions')


def tests():
    """What a `while` tests is compiled twice, before the first round and behind each."""
    def goes_on():
        seen.append(one())
        return len(seen) < 5
    seen = []
    while goes_on():
        two()
    expect(len(set(seen)) == 1 and len(seen) == 5, 'the test of a loop: %s' % seen)


def specialised():
    """The first round is not specialised yet; the instruction stays the same."""
    class Box:
        @property
        def value(self):
            return one()

        def __getitem__(self, i):
            return one()

    def look(box):
        return box.value, box[0]
    seen = {look(Box()) for _ in range(3000)}
    expect(len(seen) == 1, 'specialised instructions: %d places' % len(seen))


def called():
    """A C function with one argument: 3.11 calls it in PRECALL once it is specialised."""
    def look():
        return list(map(lambda _: one(), [0]))[0], sorted([0], key=lambda _: seen.append(one()) or 0)
    seen = []
    for _ in range(3000):
        look()
    expect(len(set(seen)) == 1, 'builtins: %d places' % len(set(seen)))


def traced():
    def look():
        return one(), [n[:4] for n in nodes()[-3:]]
    plain = look()

    def places():
        for _ in range(1):
            return look()
    before = [places() for _ in range(1)]
    sys.settrace(lambda *_: (lambda *_: None))
    with_trace = [places() for _ in range(1)]
    sys.settrace(None)
    expect(before[0][1] == with_trace[0][1], 'traced: %s, not %s' % (with_trace, before))
    expect(plain[0] != 0, 'no id')
    same = []
    for trace in (None, lambda *_: (lambda *_: None), None):
        sys.settrace(trace)
        same.append(look())
    sys.settrace(None)
    expect(len(set(map(str, same))) == 1, 'traced: %s' % same)


def monitored():
    if sys.version_info < (3, 12):
        return
    events = sys.monitoring.events
    sys.monitoring.use_tool_id(3, 'test')
    for event in events.LINE, events.INSTRUCTION, events.CALL, events.JUMP, events.BRANCH, events.PY_START:
        sys.monitoring.register_callback(3, event, lambda *_: None)
    def look():
        for _ in range(2):
            seen = one(), str(nodes())
        return seen
    same = []
    for watched in (0, events.LINE, events.INSTRUCTION, events.LINE | events.INSTRUCTION | events.CALL | events.JUMP, 0):
        sys.monitoring.set_events(3, watched)
        same.append(look())
    sys.monitoring.set_events(3, 0)
    expect(len(set(same)) == 1, 'monitored: %s' % same)


def reused():
    """Code objects of equal shape come to lie where the one before lay."""
    names = {'a%d' % i: one for i in range(40)}
    ids = {}
    for _ in range(20):
        for name in names:
            space = dict(names)
            exec('x = ' + name + '()', space)
            ids.setdefault(name, set()).add(space['x'])
    expect(all(len(x) == 1 for x in ids.values()), 'one text has one id: %s' % ids)
    expect(len(set().union(*ids.values())) == len(ids), 'other texts have other ids')


def deep(depth):
    return deep(depth - 1) if depth else (one(), len(nodes()), len(nodes(holding)))


def recursion():
    sys.setrecursionlimit(20000)
    seen = []
    threading.stack_size(512 << 20)
    thread = threading.Thread(target=lambda: seen.extend([deep(10000), deep(300), deep(299)]))
    thread.start()
    thread.join()
    threading.stack_size(0)
    expect(len(seen) == 3 and all(s[0] != 0 and s[1:] == (16, 16) for s in seen), 'recursion: %s' % seen)
    shallow = deep(3), deep(4)
    expect(shallow[0][0] != shallow[1][0], 'depth counts')


def threads():
    ids = []

    def run():
        for _ in range(1000):
            ids.append(one())
    all = [threading.Thread(target=run) for _ in range(4)]
    for thread in all:
        thread.start()
    for thread in all:
        thread.join()
    expect(len(set(ids)) == 1 and 0 not in ids, 'threads: %s' % set(ids))


def forked():
    def look():
        return one()
    for i in range(2):
        if i == 0:
            read, write = os.pipe()
            child = os.fork()
        value = look()
        if child == 0:
            os.write(write, str(value).encode())
            os._exit(0)
        if i == 0:
            os.waitpid(child, 0)
            expect(int(os.read(read, 100)) == value != 0, 'forked')


def runs_in_subinterpreter():
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    code = '''
import ctypes
probe = ctypes.CDLL(%r)
probe.probe_id.restype = ctypes.c_uint32
a = [probe.probe_id() for _ in range(2)]
numbers = (ctypes.c_uint32 * 128)()
n = probe.probe_nodes(numbers, 16)
with open(%r, 'w') as out:
    print(a[0] == a[1] != 0, n, file=out)
''' % (sys.argv[1], '/tmp/subinterpreter.%d' % os.getpid())
    if sys.version_info >= (3, 13):
        interpreter = interpreters.create('legacy')
    elif sys.version_info >= (3, 12):
        interpreter = interpreters.create(isolated=False)
    else:
        interpreter = interpreters.create()
    interpreters.run_string(interpreter, code)
    with open('/tmp/subinterpreter.%d' % os.getpid()) as out:
        said = out.read()
    os.unlink('/tmp/subinterpreter.%d' % os.getpid())
    expect(said.startswith('True') and int(said.split()[1]) > 0, 'in a subinterpreter: %s' % said)
    expect(one() != 0, 'after a subinterpreter')


expect(probe.probe_is_present(), 'not present')
for test in (processes, rounds, tests, specialised, called, traced, monitored, reused, recursion, threads, forked,
             runs_in_subinterpreter):
    test()
finish()
