"""What iterations of DistributedDataParallel cost with the layers of ResNet-18, narrow, on small images: cost.py SAMPLES [join] [uneven].

With `uneven` rank 0 leaves at half of them. Each rank prints iterations per second, and the processor time of one, with all threads.

    cost.py SAMPLES calls

Only the collectives of such an iteration, with nothing between them: two broadcasts of buffers and an all-reduce for each bucket, and the host's time in them.
"""

import contextlib
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WARM, WIDTH, BUCKETS = 20, 4, 3
BUCKET_MB = 0.09  # three buckets, as ResNet-18 has of 25 MB after a first one of 1


class Block(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        first, second = nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.body = nn.Sequential(first, nn.BatchNorm2d(width), nn.ReLU(), second, nn.BatchNorm2d(width))
        self.around = nn.Sequential()
        if stride > 1:
            self.around = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, inputs):
        return torch.relu(self.body(inputs) + self.around(inputs))


def resnet_18():
    layers = [nn.Conv2d(3, WIDTH, 7, 2, 3, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for i in range(4):
        width = WIDTH << i
        layers += [Block(width // 2 if i else width, width, 2 if i else 1), Block(width, width, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH << 3, 1000))


def train(rank, samples, words):
    model = DistributedDataParallel(resnet_18().cuda(), bucket_cap_mb=BUCKET_MB)
    inputs = torch.randn(2, 3, 32, 32, device="cuda")
    with model.join() if "join" in words else contextlib.nullcontext():
        for i in range(WARM + (samples // 2 if "uneven" in words and rank == 0 else samples)):
            if i == WARM:
                begin, used = time.monotonic(), time.process_time()
            model(inputs).sum().backward()
            torch.cuda.synchronize()
        wall, processor = time.monotonic() - begin, time.process_time() - used
    buckets = model._get_ddp_logging_data()["rebuilt_bucket_sizes"].count(",") + 1
    done = i + 1 - WARM
    print(f"RESULT {rank} {done / wall:.2f} iterations/s {1e6 * processor / done:.1f} us {buckets} buckets", flush=True)


def call(samples, rank):
    buffers = [torch.zeros(16, device="cuda"), torch.zeros(16, dtype=torch.long, device="cuda")]
    gradients = [torch.zeros(16 + i, device="cuda") for i in range(BUCKETS)]
    for i in range(WARM + samples):
        if i == WARM:
            begin, used = time.monotonic(), time.thread_time()
        for buffer in buffers:
            dist.broadcast(buffer, 0)
        for work in [dist.all_reduce(gradient, async_op=True) for gradient in gradients]:
            work.wait()
        if i % 50 == 49:
            torch.cuda.synchronize()
    wall, processor = time.monotonic() - begin, time.thread_time() - used
    print(f"RESULT {rank} {samples / wall:.2f} iterations/s {1e6 * processor / samples:.1f} us", flush=True)


def main():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    samples, words = int(sys.argv[1]), sys.argv[2:]
    if "calls" in words:
        call(samples, rank)
    else:
        train(rank, samples, words)
    dist.barrier()
    dist.destroy_process_group()


main()
