"""PyTorch's wheel is imported, and asked for its NCCL."""
import torch

print("torch", torch.__version__, "NCCL", ".".join(map(str, torch.cuda.nccl.version())))
print("GPUs", torch.cuda.device_count(), "unique id", len(torch.cuda.nccl.unique_id()))
