"""A CUDA graph of a forward pass with a sum over all ranks in it, captured once and launched in every iteration, as often on all
ranks: what is captured is left alone, and gives what it would without nccl-join."""

import torch
import torch.distributed as dist

import job


def work(options):
    rank, device = job.begin(options)
    model = job.perceptron().to(device)
    inputs = torch.zeros(job.BATCH, job.FEATURES, dtype=torch.float64, device=device)

    def forward():
        with torch.no_grad():
            total = model(inputs).sum(dim=0)
            dist.all_reduce(total)
        return total

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # what a capture must not be the first to do
        for _ in range(3):
            forward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = forward()
    sums = []
    for batch, _ in job.loader(rank, 0, options.lengths[0][rank]):
        inputs.copy_(batch)
        graph.replay()
        sums += total.tolist()
    print(f"RESULT {rank} out of data", flush=True)
    del graph
    job.finish(options, rank, model, sums)
    dist.destroy_process_group()


def reference(options):
    model = job.perceptron()
    data = [list(job.loader(rank, 0, length)) for rank, length in enumerate(options.lengths[0])]
    sums = []
    with torch.no_grad():
        for batches in zip(*data, strict=True):
            sums += sum(model(inputs).sum(dim=0) for inputs, _ in batches).tolist()
    for rank in range(options.world):
        job.finish(options, rank, model, sums)


def main():
    options = job.read_options(__doc__)
    (reference if options.reference else work)(options)


main()
