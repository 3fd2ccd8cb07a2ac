"""What is written, record by record (__main__.py has the list), and folders that are gone through for shared objects."""
import os
import re
import sys

SHARED_OBJECT = re.compile(r"\.so(\.[0-9.]+)?$")


def say(kind, text=""):
    sys.stdout.buffer.write(kind.encode() + b"\t" + os.fsencode(text) + b"\0")


def walk(folder, kind):
    for place, _, names in os.walk(folder):
        for name in names:
            if SHARED_OBJECT.search(name):
                say(kind, os.path.join(place, name))
