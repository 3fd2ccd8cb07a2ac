"""Texts: files and lines of calls and of the loops around them, against what Python says."""
import ctypes
import sys

from place import expect, finish, probe


# Calls of functions in files of libraries count as the call of them.
library = {}
exec(compile('def call(f):\n for _ in range(2):\n  f()', '/opt/lib/python3.9/site-packages/y.py', 'exec'), library)
check_code = compile('''def check(loop=None, *callers):
    frame = sys._getframe(1)
    room = ctypes.create_string_buffer(200)
    probe.probe_text(room, 200)
    seen, line = room.value.decode(), frame.f_lineno
    want = 'texts.py:%d' % line
    if loop:
        want += ' in the loop of texts.py:%d' % (frame.f_code.co_firstlineno + loop)
    want = ' < '.join((want,) + callers)
    expect(seen == want, '%r, not %r' % (seen, want))
''', '/usr/lib/python3/dist-packages/x.py', 'exec')
exec(check_code)


def here():
    return 'texts.py:%d' % sys._getframe(1).f_lineno


def in_loop(loop=-1):
    line = sys._getframe(1).f_lineno
    return 'texts.py:%d in the loop of texts.py:%d' % (line, line + loop)


def lines(caller):
    check(None, caller)
    for i in range(3):
        check(2, caller)
        while i < 2:
            check(4, caller)
            i += 1
            for _ in (1, 2):
                check(7, caller)


def inner(*callers):
    check(None, *callers)


def not_in_a_loop(*callers):
    inner(here(), *callers)


source = "def far(caller):\n    check(None, caller)\n" + "\n" * 400 + "    check(None, caller)\n    for _ in range(2):\n" + "        x = 1\n" * 200 + "        check(403, caller)\n"
for _ in range(20):
    lines(in_loop())
exec(compile(source, 'texts.py', 'exec'))
far(here())
exec(compile("def after(caller):\n" + "    x = {1: 2, 3: 4}\n" * 400 + "    check(None, caller)\n", 'texts.py', 'exec'))
after(here())
for _ in range(2):
    not_in_a_loop(in_loop())
    lines(in_loop(-2))
not_in_a_loop()
library['call'](lambda: check(None, here()))
finish()
