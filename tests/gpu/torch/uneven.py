"""Uneven DataLoaders: one loop of DistributedDataParallel whose length differs from rank to rank."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import job
from replicas import Replicas

# What DistributedDataParallel is told beside the model.
FORMS = {
    "plain": {},
    "unused": {"find_unused_parameters": True},
    "static": {"static_graph": True},
    "buckets": {"bucket_cap_mb": 0.001, "gradient_as_bucket_view": True},
    "bf16": {},
    "compile": {},
}


class Branches(torch.nn.Module):
    """Two branches, of which a rank takes one or both, by the sign of its input: the other's parameters are unused."""

    def __init__(self):
        super().__init__()
        self.common, self.left, self.right = job.perceptron(), job.perceptron(), job.perceptron()

    def forward(self, inputs):
        branch = self.left if inputs[0, 0] < 0 else self.right
        return self.common(inputs) + branch(inputs)


def build(form):
    if form == "unused":
        return Branches()
    return job.perceptron().to(torch.bfloat16 if form == "bf16" else torch.float64)


def train(options):
    rank, device = job.begin(options)
    plain = build(options.form).to(device)
    model = DistributedDataParallel(plain, **FORMS[options.form])
    optimizer = job.optimizer_of(plain)
    called = torch.compile(model) if options.form == "compile" else model
    dtype = next(plain.parameters()).dtype
    with job.joining(options, model):
        for inputs, labels in job.loader(rank, 0, options.lengths[0][rank], dtype):
            job.cross_entropy(called(inputs.to(device)), labels.to(device)).backward()
            optimizer.step()
            optimizer.zero_grad()
    print(f"RESULT {rank} out of data", flush=True)
    job.finish(options, rank, plain)
    dist.destroy_process_group()


def reference(options):
    dtype = torch.bfloat16 if options.form == "bf16" else torch.float64
    replicas = Replicas(options, lambda: build(options.form), dtype)
    replicas.train(0)
    replicas.finish()


def main():
    options = job.read_options(__doc__, ("--form", {"choices": FORMS, "default": "plain"}))
    (reference if options.reference else train)(options)


main()
