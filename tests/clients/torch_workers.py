"""A loader of data with worker processes that are forked, in each of two epochs."""
import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.arange(64.0))
for epoch in range(2):
    loader = DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context="fork")
    print("epoch", epoch, sum(batch.sum().item() for (batch,) in loader))
