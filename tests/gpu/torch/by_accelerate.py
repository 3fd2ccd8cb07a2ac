"""Uneven DataLoaders with Hugging Face Accelerate: epochs, and after each the mean loss of all ranks.

The loaders are the program's own, of which Accelerate knows nothing; --prepared: Accelerate deals the batches of one data set (even_batches=False: the
last ranks get one less), which begins each epoch with a broadcast of the generator's state.
"""

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch.utils.data import DataLoader, TensorDataset

import job
from replicas import Replicas


def whole_set(epoch, batches):
    """All batches of an epoch in the order in which ranks get them: of each rank its next one."""
    loaders = [iter(job.loader(rank, epoch, length)) for rank, length in enumerate(batches)]
    pairs = [pair for _ in range(max(batches)) for loader in loaders if (pair := next(loader, None)) is not None]
    return TensorDataset(*(torch.cat(tensors) for tensors in zip(*pairs, strict=True)))


def train(options):
    config = DataLoaderConfiguration(even_batches=False, split_batches=False)
    accelerator = Accelerator(dataloader_config=config)
    plain = job.perceptron()
    model, optimizer = accelerator.prepare(plain, job.optimizer_of(plain))
    losses, rank = [], accelerator.process_index
    for epoch, lengths in enumerate(options.lengths):
        loader = job.loader(rank, epoch, lengths[rank])
        if options.prepared:
            loader = accelerator.prepare(DataLoader(whole_set(epoch, lengths), batch_size=job.BATCH))
        total = torch.zeros(2, dtype=torch.float64, device=accelerator.device)
        for inputs, labels in loader:
            loss = job.cross_entropy(model(inputs.to(accelerator.device)), labels.to(accelerator.device))
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            total += torch.stack([loss.detach(), torch.ones_like(loss)])
        print(f"RESULT {rank} out of data", flush=True)
        total = accelerator.reduce(total, "sum")
        losses.append((total[0] / total[1]).item())
        accelerator.wait_for_everyone()
    job.finish(options, rank, accelerator.unwrap_model(model), losses)
    accelerator.end_training()


class Losses(Replicas):
    """Those of the training batches, too."""

    def __init__(self, options):
        super().__init__(options, job.perceptron)
        self.all = []

    def train(self, epoch):
        total = torch.zeros(2, dtype=torch.float64)
        for batches in self.rounds(epoch):
            for rank, (inputs, labels) in batches.items():
                loss = job.cross_entropy(self.models[rank](inputs), labels)
                loss.backward()
                total += torch.stack([loss.detach(), torch.ones_like(loss)])
            self.average(batches)
            self.step(batches)
        self.all.append((total[0] / total[1]).item())


def reference(options):
    replicas = Losses(options)
    for epoch in range(len(options.lengths)):
        replicas.train(epoch)
    replicas.finish([replicas.all] * options.world)


def main():
    options = job.read_options(__doc__, ("--prepared", {"action": "store_true"}))
    (reference if options.reference else train)(options)


main()
