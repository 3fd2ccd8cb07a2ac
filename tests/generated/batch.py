"""Files of generated programs: written, compiled and run. One such file holds many programs, so that neither compiler nor
libraries are started for each."""

import os
import shutil
import subprocess
import sys
import tempfile

import c_source
import python_source
import verdict

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PER_FILE = 50

GCC_FLAGS = (("gcc", "-O0"), ("gcc", "-O1"), ("gcc", "-O2"), ("gcc", "-O2"), ("gcc", "-O3"), ("gcc", "-O2 -flto"),
             ("gcc", "-Os"))
CLANG_FLAGS = (("clang", "-O0"), ("clang", "-O2"), ("clang", "-O3"))


class Place:
    """Where things are, and how programs run. limit_s: without a call for longer, a program hangs. timeout_s: nccl-join's.
    machines: over how many the ranks are spread."""

    def __init__(self, build, folder, limit_s=25, join=True, tamper=None, timeout_s=20, machines=1):
        self.build, self.folder, self.machines = os.path.abspath(build), folder, machines
        self.limit_s, self.join, self.tamper, self.timeout_s = limit_s, join, tamper, timeout_s
        self.includes = [word for name in ("NCCL_INCLUDE", "CUDA_INCLUDE") if os.environ.get(name)
                         for word in ("-isystem", os.environ[name])]

    def without_join(self):
        return Place(self.build, self.folder, self.limit_s, False, self.tamper, self.timeout_s, self.machines)

    def impatient(self):
        """For programs that are known to wait: nccl-join's timeout is short, and so is what comes after it."""
        return Place(self.build, self.folder, 6, self.join, self.tamper, 4, self.machines)

    def environment(self):
        made = dict(os.environ, NCCL_JOIN_SKEW_WARN="0", NCCL_JOIN_REPORT="off", NCCL_JOIN_TIMEOUT=str(self.timeout_s), LOOPBACK_HANG_S="0")
        made["NCCL_JOIN_LOSSY"] = "zero"  # messages of a joined rank; no other program has what needs its data
        made["PYTHONDONTWRITEBYTECODE"] = "1"
        made["LD_LIBRARY_PATH"] = os.path.join(self.build, "loopback")
        made["GENERATED_RANK"] = os.path.join(self.build, "generated", "librank.so")
        made["PYTHONPATH"] = HERE
        if self.machines > 1:
            made.update(GENERATED_MACHINES=str(self.machines), LOOPBACK_FOLDER=self.folder)
        made.pop("LD_PRELOAD", None)
        if self.join:
            made["LD_PRELOAD"] = os.path.join(self.build, "lib", "libnccl-join.so")
        if self.tamper:
            made["GENERATED_TAMPER"] = str(self.tamper)
        return made


def compilers(random, spec):
    """How a C program is compiled: part of what its seed decides."""
    is_cpp = spec["form"] in c_source.CPP_FORMS
    choices = GCC_FLAGS
    if random.random() < 0.3 and spec["form"] != "coroutine" and shutil.which("clang"):
        choices = CLANG_FLAGS
    compiler, flags = random.choice(choices)
    if is_cpp:
        compiler = {"gcc": "g++", "clang": "clang++"}[compiler]
        flags = random.choice(("-O0", "-O2", "-O2"))
    return [compiler, flags]


def group(specs):
    """Lists of specs that can be one file."""
    groups = {}
    for spec in specs:
        groups.setdefault((spec["kind"], *spec.get("compiler", ())), []).append(spec)
    return [members[at:at + PER_FILE] for members in groups.values() for at in range(0, len(members), PER_FILE)]


class Batch:
    """Specs of one group, under a name."""

    def __init__(self, place, name, specs):
        self.specs, self.python = specs, specs[0]["kind"] == "python"
        self.path = os.path.join(place.folder, name)
        self.is_cpp = not self.python and specs[0]["compiler"][0] in ("g++", "clang++")
        self.source = self.path + (".py" if self.python else ".cpp" if self.is_cpp else ".c")
        os.makedirs(place.folder, exist_ok=True)
        with open(self.source, "w", encoding="ascii") as file:
            file.write(python_source.source(specs) if self.python else c_source.source(specs, self.is_cpp))
        if not self.python:
            self._compile(place)

    def _compile(self, place):
        compiler, flags = self.specs[0]["compiler"]
        parts = [os.path.join(place.build, "tests", "generated", name + ".o") for name in ("runner", "job", "rank")]
        libraries = os.path.join(place.build, "loopback")
        standard = "-std=c++20" if self.is_cpp else "-std=gnu17"
        words = [compiler, standard, *flags.split(), "-w", "-I", ROOT, *place.includes, "-o", self.path, self.source, *parts,
                 "-L", libraries, "-l:libnccl.so.2", "-l:" + cudart(libraries), "-Wl,-rpath-link," + libraries, "-lm"]
        made = subprocess.run(words, capture_output=True, text=True)
        if made.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}\n{made.stderr}")

    def run(self, place, numbers=None):
        """Results by number of the program in this batch."""
        results = self.path + ".results"
        command = [sys.executable, os.path.join(HERE, "python_runner.py"), self.source] if self.python else [self.path]
        command += [results, str(place.limit_s)] + [str(number) for number in numbers or ()]
        if os.path.exists(results):
            os.remove(results)
        with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="generated-") as shared:
            ended = subprocess.run(command, env=dict(place.environment(), GENERATED_SHARED=shared), capture_output=True, text=True)
        if ended.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: status {ended.returncode}\n{ended.stderr}")
        made = {result.program: result for result in verdict.read_results(results)}
        os.remove(results)
        return made

    def remove(self):
        for path in (self.path, self.source):
            if os.path.exists(path):
                os.remove(path)


def cudart(folder):
    return next(name for name in ("libcudart.so.13", "libcudart.so.12") if os.path.exists(os.path.join(folder, name)))


def judge_all(place, name, specs, keep=False):
    """Builds and runs one group: a list of the faults of each."""
    batch = Batch(place, name, specs)
    results = batch.run(place)
    evens = [number for number, spec in enumerate(specs) if spec["even"]]
    references = batch.run(place.without_join(), evens) if evens and place.join else {}
    found = [verdict.judge(spec, results[number], references.get(number)) for number, spec in enumerate(specs)]
    if not keep:
        batch.remove()
    return found, results
