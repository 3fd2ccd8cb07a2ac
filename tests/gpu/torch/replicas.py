"""The ranks of a DistributedDataParallel job, computed one after the other in one process.

What must come out with uneven inputs, from the definition alone: in each iteration the gradients of the ranks that still
have data are added up, divided by the number of all ranks, and given to those that have data. No collective is used.
"""

import torch

from job import cross_entropy, finish, loader, optimizer_of, perceptron


class Replicas:
    def __init__(self, options, build, dtype=torch.float64):
        self.options = options
        self.models = [build() for _ in range(options.world)]
        self.optimizers = [optimizer_of(model) for model in self.models]
        self.dtype = dtype

    def rounds(self, epoch):
        """For each iteration of an epoch the batches by rank, of the ranks that have one."""
        lengths = self.options.lengths[epoch]
        data = [list(loader(rank, epoch, length, self.dtype)) for rank, length in enumerate(lengths)]
        for i in range(max(lengths)):
            yield {rank: data[rank][i] for rank, length in enumerate(lengths) if i < length}

    def average(self, active):
        """The gradients of the active ranks, summed and divided by all ranks. One that no rank has stays none."""
        for same in zip(*(self.models[rank].parameters() for rank in active), strict=True):
            gradients = [parameter.grad for parameter in same if parameter.grad is not None]
            if gradients:
                total = sum(gradients) / self.options.world
                for parameter in same:
                    parameter.grad = total.clone()

    def step(self, active):
        for rank in active:
            self.optimizers[rank].step()
            self.optimizers[rank].zero_grad()

    def train(self, epoch):
        for batches in self.rounds(epoch):
            for rank, (inputs, labels) in batches.items():
                cross_entropy(self.models[rank](inputs), labels).backward()
            self.average(batches)
            self.step(batches)

    def spread_buffers(self, active):
        """Buffers are broadcast from rank 0; where it has left, from the lowest rank that has not."""
        source = dict(self.models[min(active)].named_buffers())
        for rank in active:
            for name, buffer in self.models[rank].named_buffers():
                buffer.copy_(source[name])

    def finish(self, numbers=None):
        for rank, model in enumerate(self.models):
            finish(self.options, rank, model, numbers[rank] if numbers else ())


VALIDATION = 1000  # the epoch whose data nobody trains on


def validated(options):
    """The training of a script that validates after each epoch: the number of each is the mean loss of three batches of each rank."""
    replicas = Replicas(options, perceptron)
    losses = []
    for epoch in range(len(options.lengths)):
        replicas.train(epoch)
        means = []
        for rank, model in enumerate(replicas.models):
            with torch.no_grad():
                means += [cross_entropy(model(inputs), labels).item() for inputs, labels in loader(rank, VALIDATION, 3)]
        losses.append(sum(means) / len(means))
    replicas.finish([losses] * options.world)
