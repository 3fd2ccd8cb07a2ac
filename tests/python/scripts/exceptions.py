"""Which exception is under way in the thread that asks, and in the one that an engine's thread is asked for."""

import ctypes
import os
import subprocess
import sys
import threading

from place import expect, finish, holding, probe

KNOWN = sys.version_info >= (3, 10)


class OwnError(Exception):
    pass


def under_way(at_end=True, how=probe):
    text = ctypes.create_string_buffer(100)
    return text.value.decode() if how.probe_exception(text, 100, at_end) else None


def is_under_way(name, what):
    """From the thread itself, with and without the GIL, and from one without frames."""
    line = sys._getframe(1).f_code.co_firstlineno
    here = [under_way(), under_way(False), under_way(True, holding), under_way(False, holding)]
    text = ctypes.create_string_buffer(100)
    there = text.value.decode() if probe.probe_exception_of_main(text, 100) else None
    names = {None if seen is None else seen.split()[0] for seen in here + [there]}
    expect(names == {name if KNOWN else None}, '%s (from line %d): %s %s' % (what, line, here, there))


def in_all_handlers():
    try:
        raise OwnError('for the handler')
    except OwnError:
        is_under_way('OwnError', 'except')
    is_under_way(None, 'behind it')
    try:
        try:
            raise OwnError
        finally:
            is_under_way('OwnError', 'finally')
            deeper = [is_under_way('OwnError', 'a function that finally calls') for _ in range(1)]
    except OwnError:
        del deeper
    try:
        raise OwnError
    except OwnError:
        try:
            raise ValueError
        except ValueError:
            is_under_way('ValueError', 'the innermost one')


class Cleans:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        pass

    def __exit__(self, *_):
        is_under_way(self.name, 'with')
        return True


def in_with():
    with Cleans(None):
        pass
    with Cleans('OwnError'):
        raise OwnError


def in_generator():
    try:
        raise OwnError
    except OwnError:
        for _ in generator():
            pass


def generator():
    is_under_way('OwnError', 'a generator that a handler calls')
    yield
    try:
        raise ValueError
    except ValueError:
        yield
        is_under_way('ValueError', 'its own handler')


def what_ends_by_design():
    for exception in (StopIteration(), StopAsyncIteration(), GeneratorExit(), SystemExit(), SystemExit(0)):
        try:
            raise exception
        except BaseException:
            is_under_way(None, repr(exception))
    for exception in (SystemExit(3), SystemExit('words'), KeyboardInterrupt()):
        try:
            raise exception
        except BaseException:
            is_under_way(type(exception).__name__, repr(exception))


def in_another_thread():
    raised, done = threading.Event(), threading.Event()

    def handle():
        try:
            raise OwnError
        except OwnError:
            raised.set()
            done.wait()

    thread = threading.Thread(target=handle)
    thread.start()
    raised.wait()
    is_under_way(None, 'another thread')
    done.set()
    thread.join()


def what_is_said():
    sys.last_value = OwnError()  # as an interactive session leaves it
    is_under_way(None, 'one that was printed')
    try:
        exec(compile('\n\nint("x")', '/somewhere/site-packages/library.py', 'exec'))
    except ValueError:
        line = what_is_said.__code__.co_firstlineno + 4
        expect(not KNOWN or under_way() == 'ValueError at exceptions.py:%d' % line, 'where: %s' % under_way())
        expect(sys.exc_info()[0] is ValueError, 'it is still there')
    try:
        raise type('\u00e4\n', (Exception,), {})
    except Exception:
        expect(not KNOWN or under_way().startswith('\\xe4\\n at '), 'ASCII: %s' % under_way())
    expect('told' not in globals() and 'answer' not in globals(), 'nothing stays')


def nothing_is_kept():
    """Of the frames and exceptions that were looked at."""
    import gc
    import weakref
    gc.disable()

    class Something:
        pass

    def fail():
        something = Something()
        watch.append(weakref.ref(something))
        raise OwnError

    watch = []
    try:
        fail()
    except OwnError:
        under_way(), under_way(True, holding)
    expect(watch[0]() is None, 'a frame is kept')
    gc.enable()


def at_the_end():
    """A program of its own: what it says while functions of atexit run."""
    for last, name in (('raise OwnError', 'OwnError'), ('pass', None), ('sys.exit(3)', None), ('sys.exit()', None)):
        check_end(last, name, 'import threading')
        check_end(last, name, 'sys.modules.pop("threading", None)')


def check_end(last, name, before):
    text = '''if True:
        import atexit, ctypes, sys
        %s
        class OwnError(Exception): pass
        probe = ctypes.CDLL(sys.argv[1])
        def say():
            text = ctypes.create_string_buffer(100)
            print(text.value.decode() if probe.probe_exception(text, 100, True) else None)
        atexit.register(say)
        say()
        %s''' % (before, last)
    run = subprocess.run([sys.executable, '-c', text, os.path.abspath(sys.argv[1])], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    lines = run.stdout.decode().split('\n')
    expect(lines[0] == 'None' and lines[1].split()[0] == str(name), '%s: %s' % (last, lines))


for check in (in_all_handlers, in_with, in_generator, what_ends_by_design, in_another_thread, what_is_said, nothing_is_kept, at_the_end):
    check()
is_under_way(None, 'at last')
finish()
