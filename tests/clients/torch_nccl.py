"""torch.distributed on NCCL, and a tensor on a GPU: on a machine without one each fails in its way."""
import os

import torch
import torch.distributed as distributed

os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")


def attempt(what, action):
    try:
        print(what, action())
    except Exception as error:
        print(what, type(error).__name__, error)


attempt("process group", lambda: distributed.init_process_group("nccl"))
attempt("sum", lambda: distributed.all_reduce(torch.ones(1)))
attempt("tensor", lambda: torch.ones(1).cuda())
