"""BatchNorm: buffers that are broadcast before each forward pass, from a rank that may be out of data first; and
SyncBatchNorm, whose statistics are gathered from all ranks in each pass. --forward-only K: each K-th iteration has no
backward pass."""

import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import job
from replicas import Replicas


def build():
    return job.perceptron(torch.nn.BatchNorm1d(32))


def has_backward(options, i):
    return not options.forward_only or i % options.forward_only != options.forward_only - 1


def train(options):
    rank, device = job.begin(options)
    plain = build().to(device)
    if options.synchronised:
        plain = torch.nn.SyncBatchNorm.convert_sync_batchnorm(plain)
    model = DistributedDataParallel(plain)
    optimizer = job.optimizer_of(plain)
    with job.joining(options, model):
        for i, (inputs, labels) in enumerate(job.loader(rank, 0, options.lengths[0][rank])):
            backward = has_backward(options, i)
            with contextlib.nullcontext() if backward else torch.no_grad():
                loss = job.cross_entropy(model(inputs.to(device)), labels.to(device))
            if backward:
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    print(f"RESULT {rank} out of data", flush=True)
    job.finish(options, rank, plain)
    dist.destroy_process_group()


def step_of_one_batch(replicas, batches):
    """SyncBatchNorm: the batches of all active ranks are one batch, so the lowest active rank can do it for all."""
    first = min(batches)
    inputs = torch.cat([inputs for inputs, _ in batches.values()])
    outputs = replicas.models[first](inputs).split(job.BATCH)
    losses = [job.cross_entropy(output, labels) for output, (_, labels) in zip(outputs, batches.values(), strict=True)]
    sum(losses).backward()
    source = list(replicas.models[first].parameters())
    for rank in batches:
        for parameter, summed in zip(replicas.models[rank].parameters(), source, strict=True):
            parameter.grad = summed.grad if rank == first else torch.zeros_like(summed)
    replicas.spread_buffers(batches)


def reference(options):
    replicas = Replicas(options, build)
    for i, batches in enumerate(replicas.rounds(0)):
        replicas.spread_buffers(batches)
        if options.synchronised:
            step_of_one_batch(replicas, batches)
        else:
            for rank, (inputs, labels) in batches.items():
                loss = job.cross_entropy(replicas.models[rank](inputs), labels)
                if has_backward(options, i):
                    loss.backward()
        if has_backward(options, i):
            replicas.average(batches)
            replicas.step(batches)
    replicas.finish()


def main():
    options = job.read_options(
        __doc__,
        ("--synchronised", {"action": "store_true"}),
        ("--forward-only", {"type": int, "default": 0}),
    )
    (reference if options.reference else train)(options)


main()
