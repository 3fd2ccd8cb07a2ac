#!/usr/bin/env python3
"""What a Python program imports, for nccl-join check: read by the program's own Python, which neither runs nor imports any of it.

usage: python -I -S -B nccl-join-imports [--isolated] [--no-user] [--brief | --deep]
                                          (--script FILE | --module NAME | --code TEXT | --none) [--also FILE]...

-S keeps the site module from running what .pth files say; the folders that it would add are found here. Of the program's own
sources all import statements count, those in functions, too. Of installed packages the shared objects count, and those of what
they require; with --deep their sources are read besides, as far as they are run by an import.

Written are records that end with a zero: a word, a tab, and a text.
  package NAME     an installed one that is imported       folder PATH    where packages have NVIDIA's libraries
  object PATH      a shared object that is loaded
  own PATH         one of the program's own                opens NAME     a library that a source opens
  nccl SOURCE      it opens NCCL                           deepbind SOURCE  it names RTLD_DEEPBIND
  missing NAME     imported, and not found                 dynamic TEXT   what the program does that only a run can tell
  may TEXT         the same of an installed package        installed PATH (--deep) any installed shared object
  end              all has been read
"""
import getopt
import os
import sys
import types

from folders import own_folders, pth_folders, site_folders
from packages import Packages
from reader import Reader
from records import say, walk
from source import STANDARD, Source


def read_arguments():
    flags = ("isolated", "no-user", "safe-path", "brief", "deep", "none")
    options, _ = getopt.getopt(sys.argv[1:], "", [*flags, "script=", "module=", "code=", "also="])
    arguments = types.SimpleNamespace(script=None, module=None, code=None, also=[])
    for flag in flags:
        setattr(arguments, flag.replace("-", "_"), (f"--{flag}", "") in options)
    for name, value in options:
        if name == "--also":
            arguments.also.append(value)
        elif name[2:] not in flags:
            setattr(arguments, name[2:], value)
    return arguments


def main():
    del sys.path[0]  # this folder
    arguments = read_arguments()
    installed = site_folders(arguments.no_user)
    standard = list(sys.path)
    more, editable = pth_folders(installed)
    path = own_folders(arguments) + standard + installed + more
    reader = Reader(path, standard, installed, editable, Packages(installed, not arguments.brief), arguments.deep)
    if arguments.script and not reader.read_file(arguments.script, True):
        say("dynamic", f"{arguments.script} has no __main__")
    if arguments.module:
        reader.run_module(arguments.module)
    if arguments.code:
        Source(reader, "-c", "", True, True).read(arguments.code)
    for script in arguments.also:
        reader.read_file(script, True)
    for name in ("sitecustomize", "usercustomize"):
        if reader.find(name) not in (None, STANDARD):
            reader.use(name)
    reader.read_waiting()
    for folder in installed:
        nvidia = os.path.join(folder, "nvidia")
        for name in sorted(os.listdir(nvidia)) if os.path.isdir(nvidia) else []:
            if os.path.isdir(os.path.join(nvidia, name, "lib")):
                say("folder", os.path.join(nvidia, name, "lib"))
        if arguments.deep:
            walk(folder, "installed")
    say("end")
    sys.stdout.flush()


main()
