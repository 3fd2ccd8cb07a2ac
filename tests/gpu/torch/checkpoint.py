"""torch.distributed.checkpoint after each of several uneven epochs: each rank saves its model under a name of its own, since models of uneven ranks
differ, spoils it, and loads it again.
"""

import os
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.nn.parallel import DistributedDataParallel

import job
from replicas import Replicas


def train_epoch(model, optimizer, rank, device, epoch, length):
    for inputs, labels in job.loader(rank, epoch, length):
        job.cross_entropy(model(inputs.to(device)), labels.to(device)).backward()
        optimizer.step()
        optimizer.zero_grad()


def state_of(plain, rank):
    return {f"model of {rank}": plain.state_dict()}


def train(options):
    rank, device = job.begin(options)
    plain = job.perceptron().to(device)
    model = DistributedDataParallel(plain)
    folders = [None]
    for epoch, lengths in enumerate(options.lengths):
        train_epoch(model, job.optimizer_of(plain), rank, device, epoch, lengths[rank])
        print(f"RESULT {rank} out of data", flush=True)
        folders[0] = tempfile.mkdtemp(prefix="checkpoint-") if rank == 0 else None
        dist.broadcast_object_list(folders, 0)
        checkpoint.save(state_of(plain, rank), checkpoint_id=os.path.join(folders[0], "at"))
        with torch.no_grad():
            for parameter in plain.parameters():
                parameter.add_(1.0)
        loaded = state_of(plain, rank)
        checkpoint.load(loaded, checkpoint_id=os.path.join(folders[0], "at"))
        plain.load_state_dict(loaded[f"model of {rank}"])
        dist.barrier()
        if rank == 0:
            shutil.rmtree(folders[0])
    job.finish(options, rank, plain)
    dist.destroy_process_group()


def reference(options):
    replicas = Replicas(options, job.perceptron)
    for epoch in range(len(options.lengths)):
        replicas.optimizers = [job.optimizer_of(model) for model in replicas.models]
        replicas.train(epoch)
    replicas.finish()


def main():
    options = job.read_options(__doc__)
    (reference if options.reference else train)(options)


main()
