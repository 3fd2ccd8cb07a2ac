"""From module to module: where each is found, and which are read."""
import importlib.machinery
import os
import pkgutil
import sys
import time

from folders import is_archive
from records import say
from source import STANDARD, Source

SECONDS = 30  # for the sources of packages; PyTorch's, of which no answer depends, would take about 10


class Reader:
    """Follows imports from module to module, by the folders that the program's Python will search."""

    def __init__(self, path, standard, installed, editable, packages, deep):
        self.path, self.standard, self.installed, self.editable = path, standard, installed, editable
        self.packages, self.deep = packages, deep
        self.specs, self.seen, self.waiting = {}, set(), []

    def find(self, name):
        """The module's spec, STANDARD, or None."""
        if name not in self.specs:
            self.specs[name] = self.look_for(name)
        return self.specs[name]

    def look_for(self, name):
        head, _, _ = name.rpartition(".")
        if not head:
            if name in sys.builtin_module_names or name in getattr(sys, "stdlib_module_names", ()) and not self.shadowed(name):
                return STANDARD
            folders = self.editable.get(name, self.path)
        else:
            parent = self.find(head)
            if parent is STANDARD:
                return STANDARD
            folders = (parent.submodule_search_locations or []) if parent is not None else []
        return self.look_in(name, folders)

    def shadowed(self, name):
        """Whether a module of the standard library is found elsewhere first."""
        before = self.path[:self.path.index(self.standard[0])]
        return self.look_in(name, before) not in (None, STANDARD)

    def look_in(self, name, folders):
        portions = []
        for folder in folders:
            finder = pkgutil.get_importer(folder)
            spec = finder.find_spec(name) if hasattr(finder, "find_spec") else None
            if spec is not None and spec.loader is not None:
                return STANDARD if "." not in name and folder in self.standard else spec
            if spec is not None:
                portions += spec.submodule_search_locations or []
        if not portions:
            return None
        namespace = importlib.machinery.ModuleSpec(name, None, is_package=True)
        namespace.submodule_search_locations = portions
        return namespace

    def is_installed(self, spec):
        place = spec.origin or (spec.submodule_search_locations or [""])[0]
        return any(place.startswith(folder + os.sep) for folder in self.installed)

    def use(self, name):
        """None, or the name of what is not found."""
        parts = name.split(".")
        for i in range(len(parts)):
            full = ".".join(parts[:i + 1])
            spec = self.find(full)
            if spec is STANDARD:
                return None
            if spec is None:
                top = self.find(parts[0])
                return full if top is None or not self.is_installed(top) else None
            self.take(full, spec)
        return None

    def take(self, name, spec):
        if name in self.seen:
            return
        self.seen.add(name)
        own = not self.is_installed(spec)
        if not own and "." not in name:
            say("package", name)
            self.packages.take_import(name, list(spec.submodule_search_locations or []))
        if isinstance(spec.loader, importlib.machinery.ExtensionFileLoader):
            say("own" if own else "object", spec.origin)
        elif spec.loader is not None and (own or self.deep):
            (self.waiting.append if not own else lambda one: self.waiting.insert(0, one))((name, spec, own))

    def read_waiting(self):
        deadline = time.monotonic() + SECONDS
        while self.waiting:
            name, spec, own = self.waiting.pop(0)
            if time.monotonic() > deadline:
                return say("may", f"{spec.origin} and {len(self.waiting)} more sources are left unread: they are too many")
            package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
            self.read(spec.loader, name, spec.origin, package, own, False)
        return None

    def read(self, loader, name, path, package, own, is_main):
        source = Source(self, path, package, own, is_main)
        try:
            text = loader.get_source(name)
        except (ImportError, OSError, SyntaxError, UnicodeError):
            text = ""
            source.decides(None, "cannot be read")
        if text is None:
            source.decides(None, "has no source")
        else:
            source.read(text)

    def read_main(self, folder):
        """The __main__ of a folder, a package or an archive, which is on the path. False if there is none."""
        finder = pkgutil.get_importer(folder)
        spec = finder.find_spec("__main__") if hasattr(finder, "find_spec") else None
        if spec is None:
            return False
        self.read(spec.loader, "__main__", spec.origin, "", True, True)
        return True

    def read_file(self, path, is_main):
        """A script, which is in no package."""
        if os.path.isdir(path) or is_archive(path):
            return self.read_main(path)
        try:
            if not os.path.isfile(path):  # a pipe may never end
                raise OSError
            with open(path, "rb") as file:
                Source(self, path, "", True, is_main).read(file.read())
        except OSError:
            say("dynamic", f"{path} cannot be read")
        return True

    def run_module(self, name):
        """python -m NAME"""
        missing = self.use(name)
        spec = self.find(name)
        if missing is not None:
            return say("missing", missing)
        if spec in (None, STANDARD):
            # Of the standard library: unittest, cProfile, pdb and others run what they are told.
            return say("dynamic", f"-m {name} is told by its arguments what to run")
        if spec.submodule_search_locations is not None:
            self.use(f"{name}.__main__")
        return None
