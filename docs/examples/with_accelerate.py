"""Hugging Face Accelerate where each rank has as many batches as there are in its files.

    accelerate launch --num_processes 8 --no_python nccl-join run python with_accelerate.py

The loader is the program's own: one that Accelerate prepares deals batches evenly. After the loop all ranks gather how many
batches each had; there a rank waits that has no more, and answers the gradients of the others.
"""
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast
from torch.nn.functional import mse_loss


def batches(rank, epoch, device):
    """In the place of a loader: ranks have different amounts of data."""
    generator = torch.Generator().manual_seed(1000 * epoch + rank)
    for _ in range(10 + 5 * rank):
        inputs = torch.rand(16, 4, generator=generator)
        yield inputs.to(device), inputs.sum(1, keepdim=True).to(device)


def main():
    accelerator = Accelerator()
    rank, device = accelerator.process_index, accelerator.device
    plain = torch.nn.Linear(4, 1)
    model, optimizer = accelerator.prepare(plain, torch.optim.SGD(plain.parameters(), 0.1))
    for epoch in range(3):
        count = torch.zeros(1, device=device)
        for inputs, targets in batches(rank, epoch, device):
            loss = mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            count += 1
        counts = accelerator.gather(count).tolist()
        for parameter in model.parameters():  # that of a rank without data is as old as its last batch
            parameter.data = broadcast(parameter.data, from_process=counts.index(max(counts)))
        print(f"rank {rank} epoch {epoch} batches {counts} weights {plain.weight.flatten().tolist()}", flush=True)
    accelerator.end_training()


main()
