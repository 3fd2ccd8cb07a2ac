"""A metric in the loop: the loss of all ranks is summed in every --every'th iteration, beside the gradients."""

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import job
from replicas import Replicas


def train(options):
    rank, device = job.begin(options)
    plain = job.perceptron().to(device)
    model = DistributedDataParallel(plain)
    optimizer = job.optimizer_of(plain)
    totals = []
    for i, (inputs, labels) in enumerate(job.loader(rank, 0, options.lengths[0][rank])):
        loss = job.cross_entropy(model(inputs.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % options.every == options.every - 1:
            total = loss.detach().clone()
            dist.all_reduce(total)
            totals.append(total.item())
    print(f"RESULT {rank} out of data", flush=True)
    job.finish(options, rank, plain, totals)
    dist.destroy_process_group()


def reference(options):
    replicas = Replicas(options, job.perceptron)
    totals = [[] for _ in range(options.world)]
    for i, batches in enumerate(replicas.rounds(0)):
        total = 0.0
        for rank, (inputs, labels) in batches.items():
            loss = job.cross_entropy(replicas.models[rank](inputs), labels)
            loss.backward()
            total += loss.item()
        replicas.average(batches)
        replicas.step(batches)
        if i % options.every == options.every - 1:
            for rank in batches:
                totals[rank].append(total)
    replicas.finish(totals)


def main():
    options = job.read_options(__doc__, ("--every", {"type": int, "default": 1}))
    (reference if options.reference else train)(options)


main()
