"""Uneven DataLoaders with DeepSpeed, over epochs with a barrier after each.

--stage 0 sums gradients as DistributedDataParallel does; from 1 on the states of the optimizer are in shards (ZeRO), from 2 on the gradients too.

With uneven inputs a rank that is out of data would be missing with its shard, as in sharded.py.
"""

import deepspeed
import torch
import torch.distributed as dist

import job
from replicas import Replicas


def train(options):
    rank, device = job.begin(options)
    plain = job.perceptron().float().to(device)
    config = {
        "train_micro_batch_size_per_gpu": job.BATCH,
        "zero_optimization": {"stage": options.stage, "reduce_bucket_size": 100000, "allgather_bucket_size": 100000},
        "zero_allow_untested_optimizer": True,
    }
    engine, *_ = deepspeed.initialize(model=plain, optimizer=job.optimizer_of(plain), config=config)
    for epoch, lengths in enumerate(options.lengths):
        for inputs, labels in job.loader(rank, epoch, lengths[rank], torch.float32):
            engine.backward(job.cross_entropy(engine(inputs.to(device)), labels.to(device)))
            engine.step()
        print(f"RESULT {rank} out of data", flush=True)
        dist.barrier()
    job.finish(options, rank, plain)
    dist.destroy_process_group()


def reference(options):
    replicas = Replicas(options, lambda: job.perceptron().float(), torch.float32)
    for epoch in range(len(options.lengths)):
        replicas.train(epoch)
    replicas.finish()


def main():
    options = job.read_options(__doc__, ("--stage", {"type": int, "default": 1}))
    (reference if options.reference else train)(options)


main()
