"""nccl-join in a Python program, and what it says of jobs.

    import nccl_join

    for batch in batches:
        train(batch)
    nccl_join.leave(communicator)  # no more data in this loop

A program that is started without nccl-join has these functions, too: leave and enter do nothing then.
"""
import ctypes
import json
import os
import subprocess
from importlib import metadata

__version__ = metadata.version("nccl-join")
__all__ = ["enter", "is_active", "launcher", "leave", "report", "status"]


def launcher():
    """The path of the program nccl-join that was installed with this module."""
    for file in metadata.files("nccl-join") or ():
        if file.name == "nccl-join" and file.parent.name == "bin":
            return os.fspath(file.locate().resolve())
    raise FileNotFoundError("the program nccl-join is not there: install nccl-join again")


# ---- words of a program ----


def is_active():
    """Whether libnccl-join.so is in front of this process's NCCL."""
    return hasattr(ctypes.CDLL(None), "ncclJoinLeave")


def _handle(communicator):
    """An ncclComm_t as a number, or what has one: a process group of PyTorch, or None, the one of all ranks."""
    if isinstance(communicator, int):
        return communicator
    if isinstance(communicator, ctypes.c_void_p):
        return communicator.value
    if communicator is not None and not hasattr(communicator, "_get_backend"):
        raise TypeError("a communicator is an int or a ctypes.c_void_p (ncclComm_t), a process group of PyTorch, or None: "
                        f"the one of all ranks; not {type(communicator).__name__}")
    try:
        import torch  # only here: the module itself needs nothing
    except ImportError as error:
        raise TypeError("without PyTorch name the communicator, an int or a ctypes.c_void_p (ncclComm_t)") from error

    group = communicator if communicator is not None else torch.distributed.group.WORLD
    if group is None:
        raise RuntimeError("PyTorch has no process group yet: call torch.distributed.init_process_group first, or name the communicator")
    return group._get_backend(torch.device("cuda"))._comm_ptr()


def _call(name, communicator):
    function = getattr(ctypes.CDLL(None), name, None)
    if function is None:
        return
    result = function(ctypes.c_void_p(_handle(communicator)))
    if result != 0:
        raise RuntimeError(f"{name} returned {result}; nccl-join's log says why")


def leave(communicator=None):
    """No more data in this loop: answers the others until all have said so. All ranks call it after the loop. communicator: an
    ncclComm_t as a number, or a process group of PyTorch; None: PyTorch's of all ranks."""
    _call("ncclJoinLeave", communicator)


def enter(communicator=None):
    """A loop begins: ranks wait here for each other."""
    _call("ncclJoinEnter", communicator)


# ---- what is, and what was ----


def _ask(*words):
    done = subprocess.run([launcher(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr.decode(errors="replace").strip() or f"nccl-join {words[0]} said nothing")
    return json.loads(done.stdout)


def status(pid=None):
    """What `nccl-join status --json` says, of one process or of all jobs of this user on this machine."""
    return _ask("status", "--json", *([] if pid is None else [str(pid)]))


def report(folder):
    """What `nccl-join report --json` says of the traces in a folder."""
    return _ask("report", "--json", os.fspath(folder))
