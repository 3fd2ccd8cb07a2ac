"""python -m nccl_join COMMAND ...: the program nccl-join of this installation."""
import os
import sys

from . import launcher

program = launcher()
os.execv(program, [program, *sys.argv[1:]])
