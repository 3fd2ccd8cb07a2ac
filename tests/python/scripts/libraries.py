"""Functions that return early: those of the library that makes the call decide by how they are called, others by which rank has data."""
import ctypes

from place import expect, finish, probe, read

TEXT = '''
def early(way, *rest):
    if way is None:
        return 0
    return way(*rest)

def looping(way, *rest):
    for _ in range(1):
        n = way(*rest)
    return n

def call():
    return probe.probe_nodes(numbers, 16)
'''

numbers = (ctypes.c_uint32 * 128)()


def module(path):
    """The functions above as of a file at this path."""
    made = {'probe': probe, 'numbers': numbers}
    exec(compile(TEXT, path, 'exec'), made)
    return made


comm = module('/opt/lib/site-packages/comm/core/calls.py')
around = module('/opt/lib/site-packages/comm/api.py')
beside = module('/opt/lib/site-packages/comm/nn/wrap.py')
other = module('/usr/lib/python3/dist-packages/other/core/engine.py')
program = module('/home/user/train.py')


def check(*frames):
    """Each with the module, the function, and whether each call of that comes to what it calls; outermost first."""
    ways = [frame[0][frame[1]] for frame in frames]
    found = read(numbers, ways[0](*ways[1:]))
    seen = [node.is_always for node in found if not node.is_loop][-len(frames):]
    expect(seen == [frame[2] for frame in frames], '%s, not %s' % (seen, [frame[1:] for frame in frames]))


check((program, 'early', False), (around, 'early', True), (comm, 'early', True), (comm, 'call', True))
check((program, 'early', False), (beside, 'early', False), (comm, 'early', True), (comm, 'call', True))
check((program, 'early', False), (around, 'early', True), (other, 'early', False), (comm, 'call', True))
check((comm, 'early', False), (program, 'early', False), (comm, 'early', True), (comm, 'call', True))
check((other, 'early', False), (program, 'early', False), (program, 'call', True))
check((program, 'early', False), (comm, 'looping', True), (comm, 'early', True), (comm, 'call', True))
finish()
