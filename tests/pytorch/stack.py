"""PyTorch on the loopback, for tests: starters with and without nccl-join, and the jobs that they run.

From the environment: JOIN_TEST_BUILD (build), PYTORCH_SITE (the folder that tests/pytorch/stack makes), PYTHON (that of
make check-clients).
"""

import dataclasses
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("JOIN_TEST_BUILD", "build")).resolve()
SITE = pathlib.Path(os.environ.get("PYTORCH_SITE", BUILD / "pytorch/site-packages")).resolve()
PYTHON = os.environ.get("PYTHON", str(ROOT / ".deps/clients/python/bin/python"))
PACKAGES = next(pathlib.Path(PYTHON).parent.parent.glob("lib/python3*/site-packages"), pathlib.Path("/nowhere"))
PRELOAD = BUILD / "lib/libnccl-join.so"

# Operators are computed in the stream's memory by whoever issues them; threads of libraries would not survive the fork.
SURROUNDINGS = {
    "LOOPBACK_STRICT_HOST": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONPATH": str(SITE),
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONPYCACHEPREFIX": str(BUILD / "pytorch/pycache"),
    "PYTHONUNBUFFERED": "1",
    "TORCHINDUCTOR_CACHE_DIR": str(BUILD / "pytorch/inductor"),
}
BACKENDS = {"nccl2": {"TORCH_DIST_USE_NCCL2": "1"}, "legacy": {"TORCH_DIST_USE_NCCL2": "0"}}


# Libraries complain at the end of what gc.freeze (starter.py) has kept.
NOISE = re.compile(r"nanobind: (?:leaked|this is).*\n| - (?:leaked|\.\.\. skipped).*\n|See https://nanobind\S*refleaks\.html")


def surroundings(**more):
    """The environment of a program: this one's, but for what concerns nccl-join, and what the stack needs."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_JOIN", "LD_PRELOAD"))}
    return {**environment, **SURROUNDINGS, **more}


@dataclasses.dataclass
class Result:
    status: int  # of the first rank that failed, negative for a signal; 0; None: given up
    seconds: float
    output: str

    @property
    def stuck(self):
        return self.status is None


class Starter:
    """One process that has imported PyTorch, with or without nccl-join in front of it."""

    def __init__(self, path, join, modules, more):
        self.path, self.processor = str(path), 0.0
        environment = surroundings(**more)
        if join:
            environment["LD_PRELOAD"] = str(PRELOAD)
        command = [PYTHON, str(HERE / "starter.py"), self.path, *modules]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
        while not os.path.exists(self.path):
            if self.process.poll() is not None:
                raise SystemExit(f"PyTorch cannot be started on the loopback: status {self.process.returncode}")
            time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def connect(self):
        for _ in range(200):  # bound, but not yet listening
            try:
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(self.path)
                return connection
            except ConnectionRefusedError:
                connection.close()
                time.sleep(0.05)
        raise SystemExit(f"{self.path} does not answer")

    def run(self, argv, ranks, environment=None, limit=120, stuck_after=None, patience=5, brief=False):
        """One job. stuck_after: once this is in the output, it is given up after `patience` seconds. brief: it is done with its last line."""
        log = tempfile.NamedTemporaryFile(mode="r", suffix=".log", delete=False)
        job = {"argv": [str(word) for word in argv], "ranks": ranks, "environment": environment or {}, "log": log.name, "brief": brief}
        begin = time.monotonic()
        deadline, seen, answer = begin + limit, False, None
        with self.connect() as connection, log:
            connection.sendall((json.dumps(job) + "\n").encode())
            connection.settimeout(0.25)
            while answer is None and time.monotonic() < deadline:
                try:
                    answer = connection.recv(65536)
                except TimeoutError:
                    if stuck_after and not seen and stuck_after in pathlib.Path(log.name).read_text(errors="replace"):
                        seen, deadline = True, min(deadline, time.monotonic() + patience)
            seconds = time.monotonic() - begin
            output = NOISE.sub("", log.read())
        os.unlink(log.name)
        if answer is None:
            return Result(None, seconds, output)
        found = json.loads(answer) if answer else {"statuses": [1], "first": 0, "processor": 0.0}
        self.processor += found["processor"]
        return Result(found["statuses"][found["first"]] if found["first"] is not None else 0, seconds, output)


class Stack:
    """Starters, begun when first asked for, for the time of a `with`."""

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="pytorch-")
        self.starters, self.lock = {}, threading.Lock()
        return self

    def __exit__(self, *_):
        for starter in self.starters.values():
            starter.stop()
        self.temporary.cleanup()

    def starter(self, join, modules=(), more=()):
        """That with these modules imported in this environment."""
        with self.lock:
            key = (join, tuple(modules), tuple(dict(more).items()))
            if key not in self.starters:
                path = pathlib.Path(self.temporary.name) / f"starter-{len(self.starters)}"
                self.starters[key] = Starter(path, join, modules, dict(more))
            return self.starters[key]

    @property
    def processor(self):
        """Seconds of processor time that ranks have had which were not given up."""
        return sum(starter.processor for starter in self.starters.values())

    @property
    def with_join(self):
        return self.starter(True)

    @property
    def without(self):
        return self.starter(False)
