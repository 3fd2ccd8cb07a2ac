"""PyTorch's own distributed tests (upstream_rank.py): by themselves, under nccl-join, and, those of uneven inputs, without Join under nccl-join."""

import os
import re
import tempfile

from cases import RANKS, Case, Failure, Skip, backends, check
from stack import HERE, SITE

SOURCE = SITE / "torch/testing/_internal/distributed/distributed_test.py"
# Statuses by which a rank says that its test is skipped (TEST_SKIPS in torch/testing/_internal/common_distributed.py). 86 is also that of the
# loopback at collectives that do not match, which says so.
SKIPS = set(range(72, 90))
LIMIT = 300
MODULE = "torch.testing._internal.distributed.distributed_test"


def run(stack, join, ranks, environment, test, *options):
    """One test. Returns the result, unless the test wants to be skipped."""
    starter = stack.starter(join, [MODULE], {"BACKEND": "nccl", "WORLD_SIZE": str(ranks), "INIT_METHOD": "env://", "MASTER_ADDR": "127.0.0.1"})
    with tempfile.TemporaryDirectory(prefix="upstream-") as folder:
        for name in ("barrier", "test_dir", "init_dir"):
            os.mkdir(os.path.join(folder, name))
        more = {**environment, "TEMP_DIR": folder}
        result = starter.run([HERE / "upstream_rank.py", test, "--file", f"{folder}/store", *options], ranks, more, LIMIT)
    if result.status in SKIPS and "MISMATCH" not in result.output:
        raise Skip(f"status {result.status}")
    return result


def tests():
    return sorted(set(re.findall(r"^        def (test_\w+)\(self\)", SOURCE.read_text(), re.MULTILINE)))


def as_they_are():
    """Whatever passes by itself passes under nccl-join."""
    for backend, environment in backends():
        for ranks in RANKS:
            for test in tests():

                def act(stack, environment=environment, ranks=ranks, test=test):
                    alone = run(stack, False, ranks, environment, test)
                    if alone.status != 0:
                        raise Skip(f"by itself on this stack: {'still there' if alone.stuck else f'status {alone.status}'}{reason(alone)}")
                    check(run(stack, True, ranks, environment, test), "under nccl-join")

                yield Case(f"{backend}, {ranks} ranks: upstream {test}", act)


def reason(result):
    """The last line of what an exception says."""
    found = re.findall(r"^(?:\[rank\d\]: )?(\w*(?:Error|Exception|Interrupt)\b.*)$", result.output, re.MULTILINE)
    return f", {found[-1][:160]}" if found else ""


# Each with settings of nccl-join, and which cells of it (upstream_rank.py). Left out: test_ddp_grad_div_uneven_inputs divides by the active ranks in
# its first half and by all in its second, and NCCL_JOIN_DIVISOR is for a whole process.
WITHOUT_JOIN = [
    ("test_ddp_join_model_equivalence", {}, ""),
    ("test_ddp_uneven_input_exception", {}, ""),
    ("test_ddp_uneven_input_join_disable", {}, ""),
    ("test_ddp_join_respects_forward_sync_buffers_false", {}, ""),
    ("test_ddp_uneven_inputs", {}, "even-end,small"),
    ("test_ddp_uneven_inputs", {}, "even-end,small,no-zero"),
]


def without_join():
    """Where Join is replaced by nothing, nccl-join does its work."""
    for backend, environment in backends():
        for ranks in RANKS:
            for test, settings, cells in WITHOUT_JOIN:

                def act(stack, more={**environment, **settings}, ranks=ranks, test=test, cells=cells):
                    check(run(stack, True, ranks, more, test, "--join", "null", "--cells", cells), "Join replaced by nothing")

                yield Case(f"{backend}, {ranks} ranks: upstream {test} without Join {cells}".rstrip(), act)
