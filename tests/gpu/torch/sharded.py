"""Sharded training: ZeroRedundancyOptimizer, FullyShardedDataParallel and fully_shard.

With uneven inputs a rank that is out of data would be missing with its shard: nccl-join refuses that, on all ranks. With even inputs the
parameters are those of training without shards.
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import job
from replicas import Replicas


def sharded(kind, plain, device):
    """The model and its optimizer."""
    if kind == "zero":
        model = DistributedDataParallel(plain)
        return model, ZeroRedundancyOptimizer(
            model.parameters(), optimizer_class=torch.optim.SGD, lr=job.RATE, momentum=job.MOMENTUM
        )
    if kind == "fsdp":
        model = FullyShardedDataParallel(plain, device_id=device, use_orig_params=True)
    else:
        model = fully_shard(plain, mesh=init_device_mesh(device.type, (dist.get_world_size(),)))
    return model, job.optimizer_of(model)


def whole(kind, model, plain):
    """The model with whole parameters, to be written down; a collective for the sharded kinds."""
    if kind == "zero":
        return plain
    copy = job.perceptron()
    if kind == "fsdp":
        with FullyShardedDataParallel.summon_full_params(model):
            state = {name.replace("_fsdp_wrapped_module.", ""): value.cpu() for name, value in model.state_dict().items()}
    else:
        state = {name: value.full_tensor().cpu() for name, value in model.state_dict().items()}
    copy.load_state_dict(state)
    return copy


def train(options):
    rank, device = job.begin(options)
    plain = job.perceptron().to(device)
    model, optimizer = sharded(options.kind, plain, device)
    for inputs, labels in job.loader(rank, 0, options.lengths[0][rank]):
        job.cross_entropy(model(inputs.to(device)), labels.to(device)).backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"RESULT {rank} out of data", flush=True)
    job.finish(options, rank, whole(options.kind, model, plain))
    dist.destroy_process_group()


def reference(options):
    replicas = Replicas(options, job.perceptron)
    replicas.train(0)
    replicas.finish()


def main():
    options = job.read_options(__doc__, ("--kind", {"choices": ["zero", "fsdp", "fsdp2"], "default": "zero"}))
    (reference if options.reference else train)(options)


main()
