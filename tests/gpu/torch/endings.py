"""How a training ends: with destroy_process_group, without it, or by an exception on rank 1 in iteration 3."""

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import job
from replicas import Replicas


def train(options):
    rank, device = job.begin(options)
    plain = job.perceptron().to(device)
    model = DistributedDataParallel(plain)
    optimizer = job.optimizer_of(plain)
    for i, (inputs, labels) in enumerate(job.loader(rank, 0, options.lengths[0][rank])):
        if options.end == "exception" and rank == 1 and i == 3:
            raise OSError("the fourth file is damaged")
        loss = job.cross_entropy(model(inputs.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()  # no rank runs ahead of its device
    print(f"RESULT {rank} out of data", flush=True)
    job.finish(options, rank, plain)
    if options.end == "destroy":
        dist.destroy_process_group()


def reference(options):
    replicas = Replicas(options, job.perceptron)
    replicas.train(0)
    replicas.finish()


def main():
    options = job.read_options(__doc__, ("--end", {"choices": ["destroy", "none", "exception"], "default": "destroy"}))
    (reference if options.reference else train)(options)


main()
