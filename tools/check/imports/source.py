"""One source: what it imports, what it opens, and what it does that only a run can tell."""
import ast
import os
import re
import sys

from records import say

STANDARD = object()  # found in the standard library, and not followed

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
