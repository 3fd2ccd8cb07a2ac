#!/usr/bin/env python3
"""PyTorch's CUDA wheel on the loopback, with and without nccl-join: check.py [PART...]; the last line is "N passed, N failed".

Called by make check-pytorch. PYTORCH_CASES: only cases whose names match this regular expression. PYTORCH_RANKS ("2 4"), PYTORCH_BACKENDS ("nccl2
legacy"), PYTORCH_JOBS: cases at a time (3).
"""

import sys

import cases
import gpu_scripts
import machines
import own
import random_programs
import stack
import upstream

PARTS = {"own": own.cases, "scripts": gpu_scripts.cases, "upstream": upstream.as_they_are, "upstream-join": upstream.without_join,
         "machines": machines.cases, "random": random_programs.cases}


def main():
    wanted = sys.argv[1:] or list(PARTS)
    chosen = [case for part in wanted for case in PARTS[part]()]
    with stack.Stack() as running:
        sys.exit(0 if cases.run_all(chosen, running) else 1)


if __name__ == "__main__":
    main()
