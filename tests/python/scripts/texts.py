"""Texts: files and lines of calls and of the loops around them, against what Python says."""
import ctypes
import sys

from place import expect, finish, probe


# Calls of functions in files of libraries count as the call of them.
library = {}
exec(compile('def call(f):\n for _ in range(2):\n  f()', '/opt/lib/python3.9/site-packages/y.py', 'exec'), library)
check_code = compile('''def check(loop=None):
    frame = sys._getframe(1)
    room = ctypes.create_string_buffer(200)
    probe.probe_text(room, 200)
    seen, line = room.value.decode(), frame.f_lineno
    want = 'texts.py:%d' % line
    if loop:
        want += ' in the loop of texts.py:%d' % (frame.f_code.co_firstlineno + loop)
    expect(seen == want, '%r, not %r' % (seen, want))
''', '/usr/lib/python3/dist-packages/x.py', 'exec')
exec(check_code)


def lines():
    check()
    for i in range(3):
        check(2)
        while i < 2:
            check(4)
            i += 1
            for _ in (1, 2):
                check(7)



source = "def far():\n    check()\n" + "\n" * 400 + "    check()\n    for _ in range(2):\n" + "        x = 1\n" * 200 + "        check(403)\n"
for _ in range(20):
    lines()
exec(compile(source, 'texts.py', 'exec'))
far()
exec(compile("def after():\n" + "    x = {1: 2, 3: 4}\n" * 400 + "    check()\n", 'texts.py', 'exec'))
after()
library['call'](lambda: check())
finish()
