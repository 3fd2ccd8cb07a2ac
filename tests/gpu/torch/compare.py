"""Compares what two runs have left behind: compare.py FOLDER FOLDER [TOLERANCE] [--last].

Everything on all ranks; with --last only the parameters of the last joiner, which is what PyTorch's Join leaves on all
ranks (the buffers are another matter: Join takes them from the highest active rank, DistributedDataParallel from the
lowest). Prints the largest difference relative to the largest value of its tensor.
"""

import pathlib
import sys

import torch


def tensors(held, last_only):
    for kind in ("parameters",) if last_only else ("parameters", "buffers"):
        for name, value in held[kind].items():
            yield f"{kind} {name}", value.double()
    if not last_only:
        yield "numbers", held["numbers"].double()


def compare(left, right, last_only):
    """The largest relative difference, and where it is."""
    worst, place = 0.0, "nowhere"
    names = sorted(path.name for path in left.glob("*.pt"))
    if not names or names != sorted(path.name for path in right.glob("*.pt")):
        sys.exit(f"the runs have left different files: {left} {right}")
    for name in names:
        one, other = torch.load(left / name), torch.load(right / name)
        if last_only and not one["last"]:
            continue
        pairs = [dict(tensors(held, last_only)) for held in (one, other)]
        if pairs[0].keys() != pairs[1].keys():
            sys.exit(f"{name} has other tensors in the two runs")
        for key, value in pairs[0].items():
            if value.shape != pairs[1][key].shape:
                sys.exit(f"{name} {key} has another shape: {value.shape} and {pairs[1][key].shape}")
            if value.numel() == 0:
                continue
            scale = max(pairs[1][key].abs().max().item(), 1e-300)
            difference = (value - pairs[1][key]).abs().max().item() / scale
            if not difference <= worst:  # NaN too
                worst, place = difference, f"rank {name[:-3]}, {key}"
    return worst, place


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--last"]
    left, right = map(pathlib.Path, arguments[:2])
    tolerance = float(arguments[2]) if len(arguments) > 2 else 1e-9
    worst, place = compare(left, right, "--last" in sys.argv)
    print(f"largest difference {worst:.1e} ({place})")
    sys.exit(0 if worst <= tolerance else 1)


main()
