"""The models and skews of PyTorch's own test_ddp_uneven_inputs (torch/testing/_internal/distributed/distributed_test.py),
with their Join removed, or with it (--join): each cell's parameters on the largest rank, which has the most data in all.

A cell is one model, one interval of no_sync and one number of iterations for each rank. As in PyTorch's test the model's
step adds the gradient, and each cell has a new DistributedDataParallel, here with the same weights in every run.
"""

import contextlib
import itertools

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import job

SAMPLE = 1000  # elements of a parameter that are kept


class BatchNormNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 40, bias=False)
        self.bn = nn.BatchNorm1d(4)
        self.fc2 = nn.Linear(40, 4, bias=False)

    def forward(self, inputs):
        hidden = self.bn(self.fc1(inputs).reshape(-1, 4, 10)).reshape(-1, 40)
        return self.fc2(hidden).softmax(dim=1)


class Task(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(torch.ones(2, 2))

    def forward(self, inputs):
        return self.p + inputs


class UnusedParameters(nn.Module):
    """Two tasks, of which one rank leaves out the first."""

    def __init__(self, without):
        super().__init__()
        self.t0, self.t1, self.without = Task(), Task(), without

    def forward(self, inputs):
        return self.t1(inputs if dist.get_rank() == self.without else self.t0(inputs))


def large_conv():
    layers = [nn.Conv2d(1, 20, 5), nn.ReLU(), nn.Conv2d(20, 32, 5), nn.ReLU(), nn.Conv2d(32, 256, 5), nn.ReLU()]
    return nn.Sequential(*layers)


def small():
    return nn.Linear(1000, 1000, bias=False)


def power_sgd():
    return powerSGD_hook.PowerSGDState(
        process_group=None,
        matrix_approximation_rank=1,
        start_powerSGD_iter=1,  # 2 is the least with warm start or error feedback
        warm_start=False,
        use_error_feedback=False,
    )


# name: how the model is made, the shape of its input, a communication hook and how its state is made.
MODELS = {
    "batch_norm_net": (BatchNormNet, (1, 2), None, None),
    "large_conv_model": (large_conv, (1, 1, 64, 64), None, None),
    "small_model": (small, (1, 1000), None, None),
    "unjoined_rank_with_unused_params_model": (lambda: UnusedParameters(1), (1, 2), None, None),
    "joined_rank_with_unused_params_model": (lambda: UnusedParameters(0), (1, 2), None, None),
    "small_model_allreduce_hook": (small, (1, 1000), default_hooks.allreduce_hook, lambda: None),
    "small_model_power_sgd_hook": (small, (1, 1000), powerSGD_hook.powerSGD_hook, power_sgd),
}


def skews(world):
    """Iterations by rank: one or two ranks join early, from none or five iterations on."""
    for early, baseline, offset in itertools.product([1] if world == 2 else [1, 2], [0, 5], [2, 3, 10]):
        first = [baseline + (offset // 2 if rank > 0 else 0) for rank in range(early)]
        yield first + [baseline + offset] * (world - early)


def run_cell(options, device, name, interval, iterations):
    build, shape, hook, state = MODELS[name]
    torch.manual_seed(7)
    plain = build().to(device)
    inputs = torch.ones(shape, device=device)
    dist.barrier()
    unused = "unused_params" in name
    model = DistributedDataParallel(plain, bucket_cap_mb=1, find_unused_parameters=unused)
    if hook:
        model.register_comm_hook(state(), hook)
    with job.joining(options, model):
        for i in range(iterations[dist.get_rank()]):
            with contextlib.nullcontext() if i % interval == 0 else model.no_sync():
                model(inputs).sum().backward()
                with torch.no_grad():
                    for parameter in plain.parameters():
                        if parameter.grad is not None:
                            parameter += parameter.grad
                            parameter.grad = None
                if device.type == "cuda":
                    torch.cuda.synchronize()
    return {key: value.detach().flatten()[:: max(1, value.numel() // SAMPLE)].cpu() for key, value in plain.named_parameters()}


class Cells(nn.Module):
    """What job.finish writes down: the cells' parameters under the cells' names."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def named_parameters(self, *_, **__):
        return self.found.items()


def main():
    more = (
        ("--models", {"default": ",".join(MODELS), "help": "which of them"}),
        ("--even", {"action": "store_true", "help": "all ranks as many as the last"}),
    )
    options = job.read_options(__doc__, *more)
    rank, device = job.begin(options)
    torch.backends.cudnn.deterministic = True
    options.lengths = [[0] * (options.world - 1) + [1]]  # the largest rank is the last joiner of every cell
    cells = Cells()
    for number, name in enumerate(options.models.split(",")):
        for interval, iterations in itertools.product([1, number + 2], skews(options.world)):
            if options.even:
                iterations = [max(iterations)] * options.world
            for key, value in run_cell(options, device, name, interval, iterations).items():
                cells.found[f"{name} every {interval}, {iterations}: {key}"] = value
    print(f"RESULT {rank} {len(cells.found)} tensors", flush=True)
    job.finish(options, rank, cells)
    dist.destroy_process_group()


main()
