#!/usr/bin/env python3
"""What a Python program imports, for nccl-join check: read by the program's own Python, which neither runs nor imports any of it.

usage: python -I -S nccl-join-imports.py [--isolated] [--no-user] [--brief | --deep]
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
import ast
import getopt
import importlib.machinery
import os
import pkgutil
import re
import site
import sys
import time
import types

SECONDS = 30  # for the sources of packages; PyTorch's, of which no answer depends, would take about 10
SHARED_OBJECT = re.compile(r"\.so(\.[0-9.]+)?$")
STANDARD = object()  # found in the standard library, and not followed

# Modules of a namespace that a package looks through for plug-ins (jax's xla_bridge.py).
PLUGINS = {"jax": ["jax_plugins"]}

IMPORTS = {"__import__", "builtins.__import__", "importlib.import_module", "importlib.__import__", "runpy.run_module"}
OPENS = {"ctypes.CDLL", "ctypes.PyDLL", "ctypes.cdll.LoadLibrary", "ctypes.pydll.LoadLibrary"}
RUNS = {"exec": "runs code that is made when it runs", "eval": "runs code that is made when it runs"}
DECIDES = {
    "importlib.util.spec_from_file_location": "loads a file by its path",
    "importlib.machinery.SourceFileLoader": "loads a file by its path",
    "importlib.machinery.ExtensionFileLoader": "loads a file by its path",
    "imp.load_source": "loads a file by its path",
    "imp.load_module": "loads a file by its path",
    "imp.load_dynamic": "loads a file by its path",
    "runpy.run_path": "runs a file by its path",
    "zipimport.zipimporter": "loads a file by its path",
    "pkgutil.walk_packages": "imports what it finds in a folder",
    "pkgutil.iter_modules": "imports what it finds in a folder",
    "pkgutil.resolve_name": "imports by a name",
    "importlib.metadata.entry_points": "loads plug-ins that packages register",
    "pkg_resources.iter_entry_points": "loads plug-ins that packages register",
    "site.addsitedir": "changes where modules are looked for",
    "pickle.load": "unpickles objects, which import what they are of",
    "pickle.loads": "unpickles objects, which import what they are of",
    "cloudpickle.load": "unpickles objects, which import what they are of",
    "cloudpickle.loads": "unpickles objects, which import what they are of",
    "dill.load": "unpickles objects, which import what they are of",
    "dill.loads": "unpickles objects, which import what they are of",
}
STARTS = re.compile(r"(subprocess\.(run|call|check_call|check_output|Popen|getoutput|getstatusoutput)|pty\.spawn"
                    r"|os\.(system|popen|exec[lv]p?e?|spawn[lv]p?e?|posix_spawnp?)|asyncio\.create_subprocess_\w+)$")
PATHS = re.compile(r"sys\.(path|meta_path|path_hooks|modules)(\.(append|insert|extend))?$")


def say(kind, text=""):
    sys.stdout.buffer.write(kind.encode() + b"\t" + os.fsencode(text) + b"\0")


def constant(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def names_of(tree):
    """What the local names of a module stand for, as far as import statements say so: {"il": "importlib"}."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.setdefault(node.name, f".{node.name}")
    return names


def dotted(node, names):
    """os.path.join of `os.path.join`; "" of what is no such name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([names.get(node.id, node.id), *reversed(parts)]) if isinstance(node, ast.Name) else ""


def is_main_test(test):
    return (isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
            and constant(test.comparators[0]) == "__main__" and isinstance(test.ops[0], ast.Eq))


def never(test, is_main):
    """Whether the body of an if is left out, for certain."""
    if isinstance(test, ast.Constant):
        return not test.value
    return (isinstance(test, (ast.Name, ast.Attribute)) and getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"
            or not is_main and is_main_test(test))


def catches(node):
    """Whether a try goes on without what it cannot import."""
    wanted = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
    return any(handler.type is None or any(getattr(part, "id", "") in wanted for part in ast.walk(handler.type))
               for handler in node.handlers)


class Source:
    """One module's text: what it imports, and what it does that only a run can tell."""

    def __init__(self, reader, path, package, own, is_main):
        self.reader, self.path, self.package, self.own, self.is_main = reader, path, package, own, is_main
        self.names, self.opens, self.mentions = {}, False, False

    def read(self, text):
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return self.decides(None, "is not a text of this Python, %d.%d" % sys.version_info[:2])
        self.names.update(names_of(tree))
        waiting = [(tree, False, False)]  # nodes: in a function? may an import fail?
        while waiting:
            node, late, may_fail = waiting.pop()
            if isinstance(node, ast.If) and never(node.test, self.is_main):
                waiting += [(child, late, may_fail) for child in node.orelse]
                continue
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # a docstring
            self.look(node, late, may_fail)
            late = late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            may_fail = may_fail or isinstance(node, ast.If) or isinstance(node, ast.Try) and catches(node)
            waiting += [(child, late, may_fail) for child in ast.iter_child_nodes(node)]
        if self.mentions and self.opens:
            say("nccl", self.path)
        return None

    def decides(self, node, what):
        where = f"{self.path}:{node.lineno}" if node is not None else self.path
        say("dynamic" if self.own else "may", f"{where} {what}")

    def look(self, node, late, may_fail):
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.use(alias.name, node, late, may_fail)
        elif isinstance(node, ast.ImportFrom):
            base = self.absolute(node)
            if base and self.use(base, node, late, may_fail):
                for alias in node.names:
                    if self.reader.find(f"{base}.{alias.name}") not in (None, STANDARD):
                        self.use(f"{base}.{alias.name}", node, late, may_fail)
        elif isinstance(node, ast.Call):
            self.look_at_call(node, dotted(node.func, self.names), late, may_fail)
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                target = target.value if isinstance(target, ast.Subscript) else target
                if PATHS.match(dotted(target, self.names)):
                    self.decides(node, "changes where modules are looked for")
        elif isinstance(node, ast.Attribute) and node.attr == "RTLD_DEEPBIND":
            say("deepbind", self.path)
        elif constant(node) is not None:
            self.mentions = self.mentions or re.search(r"(^|/)libnccl\.so[^ ]*$", node.value) is not None

    def absolute(self, node):
        """The module that a from statement names."""
        if not node.level:
            return node.module
        parts = self.package.split(".") if self.package else []
        if node.level > len(parts):
            self.decides(node, "imports from a package that it is not known to be in")
            return None
        return ".".join(parts[:len(parts) - node.level + 1] + ([node.module] if node.module else []))

    def use(self, name, node, late, may_fail):
        """False if it is not there, or may not be imported."""
        if late and not self.own:
            if self.reader.find(name.split(".")[0]) is not STANDARD:
                self.decides(node, f"imports {name} in a function")
            return False
        missing = self.reader.use(name)
        if missing is None:
            return True
        if self.own:
            say("missing", missing)
        elif not may_fail and "." not in missing:
            self.decides(node, f"imports {missing}, which is not found")
        return False

    def look_at_call(self, node, name, late, may_fail):
        text = constant(node.args[0]) if node.args else None
        if name in IMPORTS:
            relative = text is not None and text.startswith(".")
            if text is None or relative and not self.package:
                self.decides(node, "imports a module whose name is made when it runs")
            elif relative:
                level = len(text) - len(text.lstrip("."))
                self.look(ast.ImportFrom(text[level:] or None, [], level, lineno=node.lineno), late, may_fail)
            else:
                self.use(text, node, late, may_fail)
        elif name in RUNS and text is not None:
            Source(self.reader, self.path, self.package, self.own, self.is_main).read(text)
        elif name in RUNS or name in DECIDES:
            self.decides(node, RUNS.get(name) or DECIDES[name])
        elif name in OPENS or name.rpartition(".")[2] == "dlopen":
            self.look_at_opening(node, text)
        elif STARTS.match(name):
            self.decides(node, "starts other programs")
        elif PATHS.match(name):
            self.decides(node, "changes where modules are looked for")

    def look_at_opening(self, node, text):
        argument = node.args[0] if node.args else None
        self.opens = True
        if isinstance(argument, ast.Call) and dotted(argument.func, self.names) == "ctypes.util.find_library" and argument.args:
            text = constant(argument.args[0])
            text = text and f"lib{text}.so"
        if text is not None:
            self.mentions = self.mentions or os.path.basename(text).startswith("libnccl.so")
            say("opens", text)
        elif argument is not None and not (isinstance(argument, ast.Constant) and argument.value is None):
            self.decides(node, "opens a library whose name is made when it runs")


class Packages:
    """What is installed, by what pip and others have written down of it."""

    def __init__(self, folders, extras):
        self.folders, self.extras, self.taken, self.all = folders, extras, set(), None

    @staticmethod
    def normal(name):
        return re.sub(r"[-_.]+", "-", name).lower()

    def read_all(self):
        """Distributions, each with its name and the modules that its list names."""
        import importlib.metadata  # takes longer than all else here, and is not always needed
        self.all = []
        for distribution in importlib.metadata.distributions(path=self.folders):
            text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
            name = re.search(r"(?im)^Name: *(\S+)", text)
            modules = (distribution.read_text("top_level.txt") or "").split()
            self.all.append((self.normal(name[1]) if name else "", modules, distribution))

    def take_import(self, name, places):
        if self.all is None:
            self.read_all()
        found = [one for one in self.all if name in one[1] or not one[1] and self.normal(name) == one[0]]
        if not found:
            begin = re.compile(r"(?m)^%s(/|\.)" % re.escape(name))
            found = [one for one in self.all if not one[1] and begin.search(one[2].read_text("RECORD") or "")]
        for one in found:
            self.take(one, True)
        for place in [] if found else places:
            walk(place, "object")
        for plugin in PLUGINS.get(name, []):
            self.take_import(plugin, [os.path.join(folder, plugin) for folder in self.folders])

    def take(self, one, first):
        name, modules, distribution = one
        if id(distribution) in self.taken:
            return
        self.taken.add(id(distribution))
        record = distribution.read_text("RECORD")
        if record is not None:
            for line in record.splitlines():
                path = line.rsplit(",", 2)[0].strip('"')
                if SHARED_OBJECT.search(path):
                    say("object", str(distribution.locate_file(path)))
        else:
            for module in modules:
                walk(str(distribution.locate_file(module)), "object")
        for requirement in distribution.requires or []:
            required = self.normal(re.match(r"[\w.-]*", requirement)[0])
            # NVIDIA's packages have nothing that is imported.
            if required.startswith("nvidia-") or "extra" in requirement and not (first and self.extras):
                continue
            for other in self.all:
                if other[0] == required:
                    self.take(other, False)


def walk(folder, kind):
    for place, _, names in os.walk(folder):
        for name in names:
            if SHARED_OBJECT.search(name):
                say(kind, os.path.join(place, name))


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


def is_archive(path):
    """Zip archives end with their table of contents: PKZIP's application note, 4.3.16."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - 65557))
            return b"PK\x05\x06" in file.read() and hasattr(pkgutil.get_importer(path), "find_spec")
    except OSError:
        return False


# ---- where a Python looks: its site module, without running what that would ----

def site_folders(no_user):
    """The folders of installed packages."""
    executable = os.path.dirname(os.path.abspath(sys.executable))
    environment, with_base = None, True
    for folder in (executable, os.path.dirname(executable)):
        try:
            with open(os.path.join(folder, "pyvenv.cfg"), encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        environment = os.path.dirname(executable)
        with_base = re.search(r"(?im)^include-system-site-packages\s*=\s*true", text) is not None
        break
    sys.prefix = sys.exec_prefix = environment or sys.base_prefix
    prefixes = ([environment] if environment else []) + ([sys.base_prefix] if with_base else [])
    folders = site.getsitepackages(prefixes)
    if with_base and not no_user and not os.environ.get("PYTHONNOUSERSITE"):
        folders.insert(0, site.getusersitepackages())
    return [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]


def pth_folders(installed):
    """What .pth files add, and the modules of packages that are installed as links by setuptools: {name: [folder]}."""
    folders, editable = [], {}
    for folder in installed:
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".pth"):
                continue
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
            for line in lines:
                if re.match(r"import[ \t]", line):
                    editable.update(read_mapping(folder, line))
                elif os.path.isdir(os.path.join(folder, line)):
                    folders.append(os.path.join(folder, line))
    return folders, editable


def read_mapping(folder, line):
    module = re.match(r"import +(__editable__\w+)", line)
    try:
        with open(os.path.join(folder, f"{module[1] if module else ''}.py"), encoding="utf-8") as file:
            mapping = re.search(r"(?m)^MAPPING\b[^=]*= *(\{.*\})", file.read())
        return {name: [os.path.dirname(path)] for name, path in ast.literal_eval(mapping[1] if mapping else "{}").items()}
    except (OSError, SyntaxError, ValueError):
        return {}


def own_folders(arguments):
    first = []
    if not arguments.isolated and not arguments.safe_path and not os.environ.get("PYTHONSAFEPATH"):
        first = [os.getcwd()]
        if arguments.script:
            whole = os.path.isdir(arguments.script) or is_archive(arguments.script)
            first = [arguments.script if whole else os.path.dirname(os.path.realpath(arguments.script))]
    elif arguments.script and (os.path.isdir(arguments.script) or is_archive(arguments.script)):
        first = [arguments.script]
    first += [os.path.dirname(os.path.realpath(script)) for script in arguments.also]
    if not arguments.isolated:
        first += [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    return [os.path.abspath(folder) for folder in first]


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
