"""The scripts of tests/gpu/torch on the loopback, by the lists that tests/gpu/run has (tests/gpu/script says what the words mean)."""

import pathlib
import shlex
import tempfile

from cases import RANKS, Case, Failure, Skip, backends, check, must_say
from stack import PACKAGES, ROOT

SCRIPTS = ROOT / "tests/gpu/torch"
LIMIT = 900  # seconds; machines that test this have other things to do


class Line:
    """HOW WHERE SETTINGS TOLERANCE SCRIPT OPTION... of tests/gpu/cases."""

    def __init__(self, line):
        how, _, settings, self.tolerance, self.script, *self.options = shlex.split(line)
        self.how, _, text = how.partition(":")
        self.text = text.replace(".", "[ .]")
        self.settings = {} if settings == "-" else dict(pair.split("=", 1) for pair in settings.split(";"))
        shown = "".join(f" with {name}={value}" for name, value in self.settings.items())
        self.name = f"{self.script} {' '.join(self.options)}{shown}: {self.how}"


def lines(which):
    for line in (ROOT / "tests/gpu/cases" / which).read_text().splitlines():
        if line and not line.startswith("#"):
            yield Line(line)


class Trial:
    """One line with so many ranks on one of PyTorch's backends."""

    def __init__(self, stack, line, ranks, environment, folder):
        self.stack, self.line, self.ranks, self.environment = stack, line, ranks, environment
        self.folder = pathlib.Path(folder)

    def run(self, starter, name, *options, ranks=None, environment=None, **more):
        record = self.folder / name
        record.mkdir()
        argv = [SCRIPTS / self.line.script, "--record", record, *options, *self.line.options]
        return starter.run(argv, ranks or self.ranks, {**self.environment, **(environment or {})}, LIMIT, **more)

    def with_join(self):
        return self.run(self.stack.with_join, "with", environment=self.line.settings)

    def same(self, left, right, *options, shown=None):
        argv = [SCRIPTS / "compare.py", self.folder / left, self.folder / right, self.line.tolerance, *options]
        result = self.stack.without.run(argv, 1, brief=True)
        if result.status != 0:
            raise Failure(f"{left} and {right}: {result.output.strip()}", shown)

    def same_as_torch_join(self):
        check(self.run(self.stack.without, "joined", "--join"), "PyTorch's Join")
        self.same("with", "joined", "--last")

    def stuck_without(self):
        """The script by itself gets as far as a rank that is out of data, and no further: its peers wait for ever, as over NVLink. At collectives that do
        not match the loopback stops; NCCL would hang or return what is wrong."""
        environment = {"LOOPBACK_DEATH": "hang"}
        result = self.run(self.stack.without, "without", environment=environment, stuck_after="out of data")
        if "out of data" not in result.output:
            raise Failure("without nccl-join: no rank has got to the end of its data", result)
        if result.status == 0:
            raise Failure("came through without nccl-join", result)
        mismatch = "collectives that do not match" if "MISMATCH" in result.output else f"status {result.status}"
        return "without: stuck" if result.stuck else f"without: {mismatch}"

    def refused(self):
        result = self.with_join()
        if result.stuck or result.status == 0:
            raise Failure("still there" if result.stuck else "came through", result)
        must_say(result, self.line.text)

    def act(self):
        how = self.line.how
        if how in ("refused", "fails"):
            return self.refused()
        result = check(self.with_join(), "with nccl-join")
        if how == "matrix":
            return self.same_as_torch_join()
        check(self.run(self.stack.without, "reference", "--reference", self.ranks, ranks=1, brief=True), "the reference")
        self.same("with", "reference", shown=result)
        must_say(result, self.line.text)
        if how == "join":
            self.same_as_torch_join()
        return self.stuck_without() if how != "even" else None


# What a script imports, by words of its line.
NEEDS = {
    "cupy": "cupy",
    "by_accelerate.py": "accelerate",
    "by_deepspeed.py": "deepspeed",
    "by_lightning.py": "lightning",
    "by_transformers.py": "transformers",
}


def missing(line):
    """What the line needs and is not there."""
    for word in (line.script, *line.options):
        package = NEEDS.get(word)
        if package and not (PACKAGES / package).is_dir():
            return f"{package} is not there"
    return None


def case(line, ranks, backend, environment):
    def act(stack):
        why = missing(line)
        if why:
            raise Skip(why)
        with tempfile.TemporaryDirectory(prefix="trial-") as folder:
            return Trial(stack, line, ranks, environment, folder).act()

    return Case(f"{backend}, {ranks} ranks: {line.name}", act, weight=3 if line.how == "matrix" or "compile" in line.options else 1)


def cases():
    for backend, environment in backends():
        for which in ("scripts", "settings", "frameworks", "matrix"):
            for line in lines(which):
                for ranks in RANKS:
                    yield case(line, ranks, backend, environment)
