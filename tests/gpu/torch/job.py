"""What the scripts of this folder share: options, ranks, data, and what they leave behind.

They are ordinary programs of DistributedDataParallel: a loop over a DataLoader whose length differs from rank to
rank, and nothing that makes up for it, unless --join asks for PyTorch's own Join. With --reference the same training
is computed by one process without any communication (replicas.py). All is float64 where the script is not about
another type: a wrong gradient then shows in the third digit, rounding in the fifteenth.

A run leaves one file per rank in --record: parameters, buffers and numbers. compare.py compares two such folders.
"""

import argparse
import contextlib
import os

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.utils.data import DataLoader, TensorDataset

FEATURES, CLASSES, BATCH, RATE, MOMENTUM = 20, 4, 8, 0.1, 0.9
cross_entropy = torch.nn.functional.cross_entropy


def read_options(description, *more):
    """more: (name, keywords) of a script's own options."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--iterations", default="4,9,6,9", help="of each rank; epochs are separated by /")
    parser.add_argument("--record", help="folder for what the ranks have at the end")
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--join", action="store_true", help="within PyTorch's Join")
    parser.add_argument("--reference", type=int, metavar="RANKS", help="one process in place of so many ranks")
    for name, keywords in more:
        parser.add_argument(name, **keywords)
    options = parser.parse_args()
    options.world = options.reference or int(os.environ.get("WORLD_SIZE", "1"))
    options.lengths = [
        [int(length) for length in epoch.split(",")][: options.world] for epoch in options.iterations.split("/")
    ]
    return options


def begin(options):
    """Joins the process group; this rank and its device."""
    rank = int(os.environ["RANK"])
    device = torch.device("cpu")
    if options.backend == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    dist.init_process_group(options.backend)
    return rank, device


def joining(options, *joinables):
    return Join(list(joinables)) if options.join else contextlib.nullcontext()


def loader(rank, epoch, batches, dtype=torch.float64):
    """The batches of one rank in one epoch: the same numbers in every run."""
    generator = torch.Generator().manual_seed(1000 * epoch + rank)
    inputs = torch.randn(batches * BATCH, FEATURES, generator=generator, dtype=torch.float64).to(dtype)
    labels = torch.randint(CLASSES, (batches * BATCH,), generator=generator)
    return DataLoader(TensorDataset(inputs, labels), batch_size=BATCH)


def perceptron(*between):
    """A small model; between: layers after the first. The same weights in every process."""
    torch.manual_seed(7)
    layers = [torch.nn.Linear(FEATURES, 32), *between, torch.nn.ReLU(), torch.nn.Linear(32, CLASSES)]
    return torch.nn.Sequential(*layers).double()


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)


def last_joiner(lengths):
    """The rank whose data lasts longest, of several the largest: the one that PyTorch's Join takes the model from."""
    return max(range(len(lengths)), key=lambda rank: (lengths[rank], rank))


def finish(options, rank, model, numbers=()):
    """Writes down what this rank has; reading it waits for the device."""
    held = {
        "last": rank == last_joiner(options.lengths[-1]),
        "parameters": {name: value.detach().cpu() for name, value in model.named_parameters()},
        "buffers": {name: value.detach().cpu() for name, value in model.named_buffers()},
        "numbers": torch.tensor(list(numbers), dtype=torch.float64),
    }
    if options.record:
        torch.save(held, os.path.join(options.record, f"{rank}.pt"))
    print(f"RESULT {rank} finished", flush=True)
