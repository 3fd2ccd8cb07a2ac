"""What an iteration of DistributedDataParallel takes: with even inputs; with uneven ones, while rank 0 has joined; how long after
the last active rank the joined one is released; and what a joined rank needs of the device's memory.

One run measures one way (--way none, join or nccl-join; run it in front of which nccl-join is to be measured). Rank 0 and the largest rank append
to --results one line of JSON for each number: a median, its quartiles and of how many samples. Iterations are timed by
CUDA events on the stream of the program and by the clock of the host, with a wait for the device after each.
"""

import contextlib
import json
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import job

# name: layers, width. The first is bound by launches, the second by its 100 MB of gradients.
MODELS = {"small": (4, 64), "large": (6, 2048)}
WARM, EPOCHS = 10, 31


def build(name, device):
    layers, width = MODELS[name]
    torch.manual_seed(7)
    return torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers))).to(device), width


class Training:
    def __init__(self, name, device):
        self.device = device
        self.plain, self.width = build(name, device)
        self.model = DistributedDataParallel(self.plain)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.inputs = torch.randn(16, self.width, device=device)

    def synchronise(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def iterate(self):
        self.model(self.inputs).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def timed(self):
        """Milliseconds by CUDA events (None on the CPU) and by the host's clock."""
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if self.device.type == "cuda" else None
        start = time.monotonic()
        if events:
            events[0].record()
        self.iterate()
        if events:
            events[1].record()
        self.synchronise()
        wall = 1e3 * (time.monotonic() - start)
        return (events[0].elapsed_time(events[1]) if events else None), wall


class Report:
    def __init__(self, options, rank):
        self.options, self.rank = options, rank

    def add(self, model, what, unit, samples):
        samples = [sample for sample in samples if sample is not None]
        if not samples or not self.options.results:
            return
        quartiles = statistics.quantiles(samples, n=4) if len(samples) > 1 else samples * 3
        line = {"way": self.options.label or self.options.way, "ranks": self.options.world, "model": model, "what": what, "unit": unit}
        line |= {"median": statistics.median(samples), "low": quartiles[0], "high": quartiles[2], "samples": len(samples)}
        with open(self.options.results, "a", encoding="utf-8") as results:
            results.write(json.dumps(line) + "\n")


def around(options, training):
    return training.model.join() if options.way == "join" else contextlib.nullcontext()


def measure_even(options, training, report, name):
    samples = []
    with around(options, training):
        for i in range(WARM + options.samples):
            sample = training.timed()
            if i >= WARM:
                samples.append(sample)
    if report.rank == options.world - 1:
        report.add(name, "even inputs, an iteration by CUDA events", "ms", [events for events, _ in samples])
        report.add(name, "even inputs, an iteration by the clock", "ms", [wall for _, wall in samples])


def used_memory(device):
    """MiB in use on the device, by all processes."""
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return (total - free) / 2**20


def measure_uneven(options, training, report, name):
    """Rank 0 has joined while the others do their samples."""
    alone, samples, before, after = 5, [], None, None
    with around(options, training):
        for i in range(WARM + (0 if report.rank == 0 else alone + options.samples)):
            sample = training.timed()
            if i == WARM - 1:
                before = used_memory(training.device)
            if i >= WARM + alone:
                samples.append(sample)
        after = used_memory(training.device)
    dist.barrier()
    if report.rank == options.world - 1:
        report.add(name, "one rank joined, an iteration by CUDA events", "ms", [events for events, _ in samples])
        report.add(name, "one rank joined, an iteration by the clock", "ms", [wall for _, wall in samples])
        if before is not None:
            report.add(name, "one rank joined, more device memory in use", "MiB", [after - before])


def measure_release(options, training, report, name):
    """When the joined rank comes past the barrier after the loop, from when the last active rank came to it."""
    moments = []
    for _ in range(EPOCHS):
        with around(options, training):
            for _ in range(2 if report.rank == 0 else 6):
                training.iterate()
                training.synchronise()
            reached = time.monotonic()
        dist.barrier()
        training.synchronise()
        moments.append((reached, time.monotonic()))
    if report.rank == 0:
        # The last active rank's moments, by way of the host: they are no part of what is measured.
        reached = options.store.get("reached").decode().split()
        released = [1e3 * (passed - float(when)) for (_, passed), when in zip(moments, reached, strict=True)]
        report.add(name, "the joined rank goes on after the last active one", "ms", released)
    elif report.rank == options.world - 1:
        options.store.set("reached", " ".join(str(reached) for reached, _ in moments))


def main():
    more = (
        ("--way", {"choices": ["none", "join", "nccl-join"], "default": "none"}),
        ("--label", {"help": "the way's name in the results"}),
        ("--models", {"default": "small,large"}),
        ("--samples", {"type": int, "default": 31}),
        ("--results", {"help": "file to append to"}),
    )
    options = job.read_options(__doc__, *more)
    rank, device = job.begin(options)
    options.store = dist.PrefixStore("measure", dist.distributed_c10d._get_default_store())
    report = Report(options, rank)
    for name in options.models.split(","):
        training = Training(name, device)
        measure_even(options, training, report, name)
        dist.barrier()
        if options.way != "none":
            measure_uneven(options, training, report, name)
            if name == "small":
                measure_release(options, training, report, name)
        dist.barrier()
    print(f"RESULT {rank} finished", flush=True)
    dist.destroy_process_group()


main()
