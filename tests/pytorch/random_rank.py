"""What scripts made at random (random_source.py) import: numbers that say who contributes them, and a record of who has met.

Each rank counts what it contributes: its serial numbers, from 1 on. A vector has those of rank r at place r; a scalar has them in the bits of
rank r; gradients are the batch, a vector, so that each parameter of a model tells who has met in its bucket. A line of the log for each:

    MET RANK SERIAL POINT EPOCH ITERATION SEEN...    the serial of each rank that is in the result, 0 if it is not
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

BITS = {torch.float32: 24, torch.float64: 52, torch.int64: 62}


def say(*words):
    """A line in one piece, as ranks write to one file."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Weights(torch.nn.Module):
    """Parameters of these sizes, each of whose gradients is the batch, followed by zeros."""

    def __init__(self, sizes, buffers):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(size)) for size in sizes)
        if buffers:
            self.register_buffer("steps", torch.zeros(3))

    def forward(self, batch):
        if hasattr(self, "steps"):
            self.steps += 1
        return sum((weight[:len(batch)] * batch).sum() + 0 * weight.sum() for weight in self.weights)


class Rank:
    def __init__(self, sync):
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.sync, self.serial, self.steps, self.unread = sync, 0, 0, []
        torch.cuda.set_device(self.rank)
        dist.init_process_group("nccl")

    def model(self, sizes, buffers, hook, **options):
        torch.manual_seed(1)
        model = DistributedDataParallel(Weights(sizes, buffers).cuda(), device_ids=[self.rank], **options)
        if hook:
            model.register_comm_hook(None, allreduce_hook)
        return model

    def _next(self, point, epoch, iteration):
        self.serial += 1
        self.stands = (self.serial, point, epoch, iteration)

    def batch(self, point, epoch, iteration, counts=True):
        """counts: its gradients are reduced; otherwise they are zeros, to which others are added."""
        batch = torch.zeros(self.world, device="cuda")
        if counts:
            self._next(point, epoch, iteration)
            batch[self.rank] = self.serial
        return batch

    def gradients(self, model):
        """Of the last batch, once they have been reduced: of all parameters, if these are not all the same."""
        found = [weight.grad[:self.world].clone() * self.world for weight in model.module.weights]
        self.unread.append((self.stands, found))
        self._read_if("call")

    def numbers(self, point, epoch, iteration, count, dtype):
        """For one collective. A count of 1: a scalar."""
        self._next(point, epoch, iteration)
        dtype = getattr(torch, dtype)
        if count == 1:
            return torch.tensor([self.serial << self._bits(dtype) * self.rank], dtype=dtype, device="cuda")
        numbers = torch.zeros(count, dtype=dtype, device="cuda")
        numbers[self.rank] = self.serial
        return numbers

    def _bits(self, dtype):
        return BITS[dtype] // self.world

    def met(self, numbers):
        """The result of the collective that the last numbers were for. None: another rank has it."""
        self.unread.append((self.stands, [numbers if numbers is None else numbers.clone()]))
        self._read_if("call")

    def step(self):
        """After an iteration."""
        self.steps += 1
        self._read_if("iteration")

    def _read_if(self, when):
        if self.sync == when:
            self.read()

    def _serials(self, numbers):
        if numbers is None:
            return (0,) * self.world
        values = [round(value) for value in numbers.tolist()]
        if len(values) > 1:
            return tuple(values[:self.world])
        bits = self._bits(numbers.dtype)
        return tuple(values[0] >> bits * rank & (1 << bits) - 1 for rank in range(self.world))

    def read(self):
        """Waits for the device, and records what has not been."""
        torch.cuda.synchronize()
        for (serial, point, epoch, iteration), found in self.unread:
            seen = [self._serials(numbers) for numbers in found]
            for number, one in enumerate(seen):
                if number == 0 or one != seen[0]:
                    say("MET", self.rank, serial, point, epoch, iteration, *one)
        self.unread = []

    def end(self, destroy):
        self.read()
        if destroy:
            dist.destroy_process_group()
        say("END", self.rank)


def batches(count):
    yield from range(count)


class Loader:
    """As a DataLoader: an iterator with a __next__ of its own."""

    def __init__(self, count):
        self.count, self.at = count, -1

    def __iter__(self):
        return self

    def __next__(self):
        self.at += 1
        if self.at == self.count:
            raise StopIteration
        return self.at
