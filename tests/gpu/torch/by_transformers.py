"""Uneven DataLoaders with the Trainer of Hugging Face's transformers: epochs of trainer.train, and after each of them an evaluation, whose loss is gathered
from all ranks. The loaders are the program's own.
"""

import tempfile

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

import job
from replicas import VALIDATION, validated


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = job.perceptron()

    def forward(self, inputs, labels):
        return {"loss": job.cross_entropy(self.layers(inputs), labels)}


class Batches:
    """Those of one rank, epoch after epoch."""

    def __init__(self, rank, lengths, epoch=0):
        self.rank, self.lengths, self.epoch = rank, lengths, epoch

    def __len__(self):
        return max(self.lengths)

    def __iter__(self):
        epoch = self.epoch
        self.epoch += epoch != VALIDATION
        for inputs, labels in job.loader(self.rank, epoch, self.lengths[epoch % len(self.lengths)]):
            yield {"inputs": inputs, "labels": labels}


class Uneven(Trainer):
    def __init__(self, options, **more):
        self.options = options
        super().__init__(**more)

    def get_train_dataloader(self):
        rank = self.args.process_index
        return Batches(rank, [lengths[rank] for lengths in self.options.lengths])

    def get_eval_dataloader(self, eval_dataset=None):
        return Batches(self.args.process_index, [3], VALIDATION)


class Losses(TrainerCallback):
    def __init__(self):
        self.all = []

    def on_epoch_end(self, args, state, control, **more):
        print(f"RESULT {args.process_index} out of data", flush=True)

    def on_evaluate(self, args, state, control, metrics, **more):
        self.all.append(metrics["eval_loss"])


def train(options):
    model, losses = Model(), Losses()
    with tempfile.TemporaryDirectory(prefix="trainer-") as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=len(options.lengths),
            per_device_eval_batch_size=job.BATCH,
            eval_strategy="epoch",
            prediction_loss_only=True,
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            max_grad_norm=0,
            ddp_find_unused_parameters=False,
            dataloader_pin_memory=False,
        )
        optimizer = job.optimizer_of(model)
        constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1)
        trainer = Uneven(options, model=model, args=arguments, eval_dataset=[], optimizers=(optimizer, constant), callbacks=[losses])
        trainer.train()
    job.finish(options, arguments.process_index, model.layers, losses.all)


def main():
    options = job.read_options(__doc__)
    (validated if options.reference else train)(options)


main()
