"""Uneven epochs, and after each of them a validation in which all ranks take part.

Nothing gives a rank that ran out of data the model of the last one, so from the second epoch on the models differ; the
reference has that too. What all ranks must agree on is the loss of each validation.
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import job
from replicas import Replicas

VALIDATION = 1000  # the epoch whose data nobody trains on


def loss_of(model, rank, device="cpu"):
    """Summed over this rank's part of the validation data, and how many samples that is."""
    model.eval()
    total = torch.zeros(2, dtype=torch.float64, device=device)
    with torch.no_grad():
        for inputs, labels in job.loader(rank, VALIDATION, 3):
            loss = job.cross_entropy(model(inputs.to(device)), labels.to(device), reduction="sum")
            total += torch.stack([loss, torch.tensor(float(len(labels)), dtype=torch.float64, device=device)])
    model.train()
    return total


def train(options):
    rank, device = job.begin(options)
    plain = job.perceptron().to(device)
    model = DistributedDataParallel(plain)
    optimizer = job.optimizer_of(plain)
    losses = []
    for epoch, lengths in enumerate(options.lengths):
        for inputs, labels in job.loader(rank, epoch, lengths[rank]):
            job.cross_entropy(model(inputs.to(device)), labels.to(device)).backward()
            optimizer.step()
            optimizer.zero_grad()
        print(f"RESULT {rank} out of data", flush=True)
        total = loss_of(plain, rank, device)
        dist.all_reduce(total)
        losses.append((total[0] / total[1]).item())
    job.finish(options, rank, plain, losses)
    dist.destroy_process_group()


def reference(options):
    replicas = Replicas(options, job.perceptron)
    losses = []
    for epoch in range(len(options.lengths)):
        replicas.train(epoch)
        total = sum(loss_of(model, rank) for rank, model in enumerate(replicas.models))
        losses.append((total[0] / total[1]).item())
    replicas.finish([losses] * options.world)


def main():
    options = job.read_options(__doc__)
    (reference if options.reference else train)(options)


main()
