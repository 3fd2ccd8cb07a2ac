"""Gradient accumulation: gradients are summed over the ranks in every --every'th iteration only; the others are within
no_sync."""

import contextlib

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import job
from replicas import Replicas


def train(options):
    rank, device = job.begin(options)
    plain = job.perceptron().to(device)
    model = DistributedDataParallel(plain)
    optimizer = job.optimizer_of(plain)
    with job.joining(options, model):
        for i, (inputs, labels) in enumerate(job.loader(rank, 0, options.lengths[0][rank])):
            step = i % options.every == options.every - 1
            with contextlib.nullcontext() if step else model.no_sync():
                job.cross_entropy(model(inputs.to(device)), labels.to(device)).backward()
            if step:
                optimizer.step()
                optimizer.zero_grad()
    print(f"RESULT {rank} out of data", flush=True)
    job.finish(options, rank, plain)
    dist.destroy_process_group()


def reference(options):
    replicas = Replicas(options, job.perceptron)
    for i, batches in enumerate(replicas.rounds(0)):
        for rank, (inputs, labels) in batches.items():
            job.cross_entropy(replicas.models[rank](inputs), labels).backward()
        if i % options.every == options.every - 1:
            replicas.average(batches)
            replicas.step(batches)
    replicas.finish()


def main():
    options = job.read_options(__doc__, ("--every", {"type": int, "default": 3}))
    (reference if options.reference else train)(options)


main()
