"""PyTorch's own distributed tests (upstream_rank.py): as they are under nccl-join, and, those of uneven inputs, without Join under nccl-join.

What fails under nccl-join is run by itself, too: what passes by itself must pass under nccl-join. A test that wants more ranks gets the next larger number
of PYTORCH_RANKS, and 8 at last, which is what most of PyTorch's tests of groups want.
"""

import json
import os
import re
import tempfile
import threading

from cases import RANKS, Case, Failure, Skip, backends, check
from stack import HERE, SITE

SOURCE = SITE / "torch/testing/_internal/distributed/distributed_test.py"
# Statuses by which a rank says that its test is skipped (TEST_SKIPS in torch/testing/_internal/common_distributed.py). 86 is also that of the
# loopback at collectives that do not match, which says so.
SKIPS = range(72, 90)
TOO_FEW = re.compile(r"[Ww]orld.size|Need at least|out of range|group_size|subgroup")
LIMIT = 900
MODULE = "torch.testing._internal.distributed.distributed_test"
# What passes by itself and not under nccl-join: what is said there, and why.
HELD = "a call of the program that its peers do not make does not return, so the wait(timeout=0.1) behind it is not reached; one ends when the other does"
OTHERWISE = {
    "test_monitored_barrier_allreduce_hang": (r"parked in allreduce.*is released with ncclRemoteError", HELD),
    "test_monitored_barrier_allreduce_hang_wait_all_ranks": (r"parked in allreduce.*is released with ncclRemoteError", HELD),
}
SIZES = [*RANKS, 8] if len(RANKS) > 1 else RANKS


def start(stack, join, ranks, environment, *argv):
    starter = stack.starter(join, [MODULE], {"BACKEND": "nccl", "WORLD_SIZE": str(ranks), "INIT_METHOD": "env://", "MASTER_ADDR": "127.0.0.1"})
    with tempfile.TemporaryDirectory(prefix="upstream-") as folder:
        for name in ("barrier", "test_dir", "init_dir"):
            os.mkdir(os.path.join(folder, name))
        more = {**environment, "TEMP_DIR": folder}
        processes = 1 if "--list" in argv else ranks
        return starter.run([HERE / "upstream_rank.py", *argv, "--file", f"{folder}/store"], processes, more, LIMIT)


class Lists:
    """What upstream_rank.py --list says, for each number of ranks."""

    def __init__(self):
        self.lock, self.found = threading.Lock(), {}

    def of(self, stack, ranks):
        with self.lock:
            if ranks not in self.found:
                result = start(stack, True, ranks, {}, "--list")
                said = re.search(r"^TESTS (.*)$", result.output, re.MULTILINE)
                if not said:
                    raise Failure("the list of tests", result)
                self.found[ranks] = json.loads(said[1])
            return self.found[ranks]


LISTS = Lists()


def run(stack, join, ranks, environment, test, *options):
    """One test. Returns the result, unless the test wants to be skipped."""
    known = LISTS.of(stack, ranks)
    if test not in known["tests"]:
        raise Skip("PyTorch leaves it out: not one of the class's tests")
    if known["tests"][test]:
        raise Skip(f"PyTorch leaves it out: {known['tests'][test]}")
    result = start(stack, join, ranks, environment, test, *options)
    if result.status in SKIPS and "MISMATCH" not in result.output:
        said = re.search(r"for following reason: (.*)", result.output)
        raise Skip(f"PyTorch leaves it out: {said[1] if said else known['statuses'].get(str(result.status), result.status)}")
    return result


def tests():
    return sorted(set(re.findall(r"^        def (test_\w+)\(self\)", SOURCE.read_text(), re.MULTILINE)))


def reason(result):
    """The last line of what an exception says."""
    found = re.findall(r"^(?:\[rank\d\]: )?(\w*(?:Error|Exception|Interrupt)\b.*)$", result.output, re.MULTILINE)
    return f", {found[-1][:160]}" if found else ""


def trial(stack, ranks, environment, test):
    """Whatever passes by itself passes under nccl-join."""
    with_join = run(stack, True, ranks, environment, test)
    if with_join.status == 0:
        return
    alone = run(stack, False, ranks, environment, test)
    if alone.status != 0:
        raise Skip(f"by itself on this stack: {'still there' if alone.stuck else f'status {alone.status}'}{reason(alone)}")
    if test in OTHERWISE and re.search(OTHERWISE[test][0], with_join.output):
        raise Skip(f"otherwise under nccl-join: {OTHERWISE[test][1]}")
    check(with_join, "under nccl-join")


def weight(test):
    return 4 if test == "test_ddp_uneven_inputs" else 1


def as_they_are():
    for backend, environment in backends():
        for test in tests():
            for sizes in [[ranks] for ranks in RANKS] if re.search("uneven|join", test) else [SIZES]:

                def act(stack, environment=environment, sizes=sizes, test=test):
                    for ranks in sizes:
                        try:
                            trial(stack, ranks, environment, test)
                            return f"with {ranks} ranks" if ranks != sizes[0] else None
                        except Skip as skip:
                            if ranks == sizes[-1] or not TOO_FEW.search(str(skip)):
                                raise

                yield Case(f"{backend}, {sizes[0]} ranks: upstream {test}", act, weight=weight(test))


# Each with settings of nccl-join, and which cells of it (upstream_rank.py). Where one rank out of data stops all, what the tests look for is in the exceptions
# that NCCL's error has become. Left out: test_ddp_grad_div_uneven_inputs divides by the active ranks in its first half and by all in its second, and
# NCCL_JOIN_DIVISOR is for a whole process.
THROW = {"NCCL_JOIN_EARLY_EXIT": "throw"}
WITHOUT_JOIN = [
    ("test_ddp_join_model_equivalence", {}, ""),
    ("test_ddp_uneven_input_exception", {}, ""),
    ("test_ddp_uneven_input_join_disable", {}, ""),
    ("test_ddp_join_respects_forward_sync_buffers_false", {}, ""),
    ("test_ddp_uneven_inputs", {}, "even-end,small"),
    ("test_ddp_uneven_inputs", {}, "even-end,small,no-zero"),
    ("test_ddp_uneven_inputs", THROW, "throw,small"),
    ("test_ddp_uneven_inputs_stop_iteration_sync_bn", THROW, ""),
]


def without_join():
    """Where Join is replaced by nothing, nccl-join does its work."""
    for backend, environment in backends():
        for ranks in RANKS:
            for test, settings, cells in WITHOUT_JOIN:

                def act(stack, more={**environment, **settings}, ranks=ranks, test=test, cells=cells):
                    check(run(stack, True, ranks, more, test, "--join", "null", "--cells", cells), "Join replaced by nothing")

                words = [cells, *(f"{name}={value}" for name, value in settings.items())]
                name = f"{backend}, {ranks} ranks: upstream {test} without Join {' '.join(filter(None, words))}"
                yield Case(name.rstrip(), act, weight=weight(test))
