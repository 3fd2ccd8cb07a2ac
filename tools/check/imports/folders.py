"""Where a Python looks for modules: what its site module would add, without running what that would, and the program's own."""
import ast
import os
import pkgutil
import re
import site
import sys


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
