"""torch.distributed on gloo: a sum over all ranks, said by each rank in turn."""
import torch
import torch.distributed as distributed

distributed.init_process_group("gloo")
rank, size = distributed.get_rank(), distributed.get_world_size()
numbers = torch.arange(4.0) + rank
distributed.all_reduce(numbers)
for turn in range(size):
    if turn == rank:
        print("rank", rank, "of", size, numbers.tolist(), flush=True)
    distributed.barrier()
distributed.destroy_process_group()
