"""One rank of one of PyTorch's own distributed tests, as the wheel brings them (torch/testing/_internal/distributed/distributed_test.py):

    upstream_rank.py TEST [--join null] [--cells TEXT]
    upstream_rank.py --list

With BACKEND=nccl and WORLD_SIZE in the environment, it does what the processes do that PyTorch's test/distributed/test_distributed_spawn.py makes. With
--join null the context of DistributedDataParallel.join does nothing but what the tests look at afterwards: a barrier, and the model of the last rank for
all. --cells even-end or throw: of test_ddp_uneven_inputs only what does not throw, or does; small: not the large models either.
--list says which tests there are, why PyTorch leaves them out (of so many ranks, with NCCL), and what the statuses mean by which a rank says so:
the parent of PyTorch's tests, which is not here, looks at both.
"""

import argparse
import contextlib
import json
import logging
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.common_distributed import TEST_SKIPS
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

Tests = DistributedTest._DistTestBase


@contextlib.contextmanager
def null_join(self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False):
    del divide_by_initial_world_size
    self.logger._set_uneven_input_join()
    yield
    if not enable:
        return
    dist.barrier()
    if not throw_on_early_termination:
        self._authoritative_rank = dist.get_world_size() - 1
        for tensor in [*self.module.parameters(), *self.module.buffers()]:
            dist.broadcast(tensor.detach(), self._authoritative_rank)


def choose_cells(wanted):
    whole = Tests._run_uneven_inputs_test

    def some(self, test_case, iteration_mapping, find_unused_params):
        if "small" in wanted and ("large" in test_case.name or "resnet" in test_case.name):
            return
        if "throw" in wanted and not test_case.throw_on_early_termination:
            return
        if "even-end" in wanted and test_case.throw_on_early_termination:
            return
        if "no-zero" in wanted and 0 in iteration_mapping.values():
            return
        whole(self, test_case, iteration_mapping, find_unused_params)

    Tests._run_uneven_inputs_test = some


def without_profiler():
    """nccl2 shows the profiler no events: that is left out, and what the collectives bring stays."""
    whole = Tests.call_dist_op

    def quiet(self, *arguments, **keywords):
        return whole(self, *arguments, **{**keywords, "expect_event": False})

    Tests.call_dist_op = quiet


class TestOnTheLoopback(TestDistBackend, Tests):
    pass


def list_tests():
    names = [name for name in dir(TestOnTheLoopback) if name.startswith("test_")]
    why = {name: getattr(getattr(TestOnTheLoopback, name), "__unittest_skip_why__", None) for name in names}
    print("TESTS", json.dumps({"tests": why, "statuses": {skip.exit_code: skip.message for skip in TEST_SKIPS.values()}}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("test", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--file", required=True, help="for the process group's store")
    parser.add_argument("--join", choices=["torch", "null"], default="torch")
    parser.add_argument("--cells", default="")
    options = parser.parse_args()
    if options.list:
        list_tests()
        return
    logging.getLogger("torch.testing._internal.common_distributed").addHandler(logging.StreamHandler())
    if options.join == "null":
        DistributedDataParallel.join = null_join
    if os.environ.get("TORCH_DIST_USE_NCCL2") != "0":
        without_profiler()
    choose_cells(options.cells.split(","))
    heard, said = torch.multiprocessing.Pipe()
    try:
        TestOnTheLoopback._run(int(os.environ["RANK"]), options.test, options.file, said)
    finally:
        said.close()
        with contextlib.suppress(EOFError):
            while True:
                print(heard.recv(), file=sys.stderr)


main()
