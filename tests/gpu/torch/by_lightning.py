"""Uneven DataLoaders with Lightning: epochs of trainer.fit with the strategy ddp, and after each of them a validation, whose loss is averaged over all ranks.

Lightning validates in the iteration of the last batch. --leave: a rank says before that it has no more data in this loop (docs/programs.md).
"""

import ctypes

import lightning
import torch.distributed as dist

import job
from replicas import VALIDATION, validated


class Module(lightning.LightningModule):
    def __init__(self, options):
        super().__init__()
        self.options, self.model, self.losses = options, job.perceptron(), []

    def training_step(self, batch, _):
        return job.cross_entropy(self.model(batch[0]), batch[1])

    def on_validation_start(self):
        print(f"RESULT {self.global_rank} out of data", flush=True)
        if self.options.leave:
            communicator = dist.group.WORLD._get_backend(self.device)._comm_ptr()
            leave = getattr(ctypes.CDLL(None), "ncclJoinLeave", None)  # none without nccl-join
            assert leave is None or leave(ctypes.c_void_p(communicator)) == 0

    def validation_step(self, batch, _):
        self.log("loss", job.cross_entropy(self.model(batch[0]), batch[1]), sync_dist=True)

    def on_validation_epoch_end(self):
        self.losses.append(self.trainer.callback_metrics["loss"].item())

    def configure_optimizers(self):
        return job.optimizer_of(self.model)

    def train_dataloader(self):
        epoch = self.trainer.current_epoch
        return job.loader(self.global_rank, epoch, self.options.lengths[epoch][self.global_rank])

    def val_dataloader(self):
        return job.loader(self.global_rank, VALIDATION, 3)


def train(options):
    world = len(options.lengths[0])
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        accelerator="gpu",
        devices=world,
        strategy="ddp",
        max_epochs=len(options.lengths),
        use_distributed_sampler=False,
        reload_dataloaders_every_n_epochs=1,
        num_sanity_val_steps=0,
        **quiet,
    )
    module = Module(options)
    trainer.fit(module)
    job.finish(options, module.global_rank, module.model, module.losses)


def main():
    options = job.read_options(__doc__, ("--leave", {"action": "store_true"}))
    (validated if options.reference else train)(options)


main()
