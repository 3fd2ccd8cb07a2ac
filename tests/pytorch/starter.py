"""Imports PyTorch once, and becomes the ranks of any number of jobs: starter.py SOCKET [MODULE...].

A job is a connection to SOCKET with one line of JSON: argv (a script and its options), ranks, environment (of all of them), log (a file for what they
print), brief (it only computes something, and needs no end). The ranks are forked from here, so none pays for the import, and run the script as
__main__; they end as a script ends, with all that Python and the libraries do then. As under torchrun the first that fails ends the others. The answer is
one line of JSON, the ranks' statuses and their processor time; if the other side closes the connection before, the ranks are killed.

Nothing here has used CUDA or NCCL, which after a fork could not be used any more. MODULEs are imported too, and may ask whether there is CUDA.
"""

import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import time

import torch
import torch._dynamo  # noqa: F401  (DistributedDataParallel imports it when the first one is made: 0.7 s)
import torch.distributed.algorithms.join  # noqa: F401
import torch.distributed.checkpoint  # noqa: F401
import torch.distributed.fsdp  # noqa: F401
import torch.distributed.optim  # noqa: F401
import torch.utils.data  # noqa: F401

GRACE = 5  # seconds between SIGTERM and SIGKILL


def import_modules(names):
    """PyTorch's answers to these would come from CUDA itself."""
    asked = {"is_available": lambda: True, "device_count": lambda: 8}
    kept = {name: getattr(torch.cuda, name) for name in asked}
    for name, answer in asked.items():
        setattr(torch.cuda, name, answer)
    for name in names:
        importlib.import_module(name)
    for name, function in kept.items():
        setattr(torch.cuda, name, function)


def check_state():
    threads = len(os.listdir("/proc/self/task"))
    untouched = ctypes.CDLL("libcuda.so.1").cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == 3  # CUDA_ERROR_NOT_INITIALIZED
    if threads != 1 or not untouched:
        sys.exit(f"starter.py: {threads} threads, CUDA is {'not ' if untouched else ''}in use: ranks cannot be forked")


def take_port():
    """A port and what keeps it: other launchers of nccl-join leave it alone until that is closed, as tools/port.h says."""
    first, count = 10240, 10000
    for offset in range(count):
        port = first + 2 * ((os.getpid() + offset) % count)
        hold = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with socket.socket() as probe:
            try:
                hold.bind(f"\0nccl-join/port/{port}")
                probe.bind(("127.0.0.1", port))
            except OSError:
                hold.close()
                continue
            return port, hold
    sys.exit(f"starter.py: no free port on 127.0.0.1 from {first} to {first + 2 * (count - 1)}")


def become_rank(job, rank, port):
    """Environment and output of one rank."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    nothing = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)
    ranks = job["ranks"]
    os.environ.update(job["environment"])
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), ROLE_RANK=str(rank), GROUP_RANK="0", GROUP_WORLD_SIZE="1", ROLE_NAME="default")
    os.environ.update(WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks), ROLE_WORLD_SIZE=str(ranks))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def signal_all(pids, number):
    for pid in pids:
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            pass


def watch(pids, connection):
    """Waits for the ranks. Returns their statuses, as a shell's, and processor time; None if the other side has gone."""
    statuses, first, deadline, processor = {}, None, None, 0.0
    while len(statuses) < len(pids):
        for rank, pid in enumerate(pids):
            if rank in statuses:
                continue
            found, status, used = os.wait4(pid, os.WNOHANG)
            if found:
                processor += used.ru_utime + used.ru_stime
                statuses[rank] = os.waitstatus_to_exitcode(status)
                first = rank if first is None and statuses[rank] != 0 else first
        left = [pid for rank, pid in enumerate(pids) if rank not in statuses]
        if first is not None and deadline is None and left:
            deadline = time.monotonic() + GRACE
            signal_all(left, signal.SIGTERM)
        if deadline is not None and time.monotonic() > deadline:
            signal_all(left, signal.SIGKILL)
        if select.select([connection], [], [], 0.02)[0]:
            return None
    return {"statuses": [statuses[rank] for rank in range(len(pids))], "first": first, "processor": processor}


def launch(connection):
    """Starts one job and sees it through. Returns only in its ranks."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    job = json.loads(connection.makefile().readline())
    (port, hold), pids = take_port(), []
    for rank in range(job["ranks"]):
        pid = os.fork()
        if pid == 0:
            connection.close()
            hold.close()
            become_rank(job, rank, port)
            return job
        pids.append(pid)
    answer = watch(pids, connection)
    signal_all(pids, signal.SIGKILL)  # and what they have started
    if answer:
        connection.sendall((json.dumps(answer) + "\n").encode())
    os._exit(0)


def serve(path):
    """Returns in the ranks, with their job."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                return launch(connection)
            connection.close()


def main():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: it ends with the test that began it
    import_modules(sys.argv[2:])
    check_state()
    gc.freeze()  # what is there is there for good: no rank looks through it at its end, which would copy all pages
    job = serve(sys.argv[1])
    sys.argv = job["argv"]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    return job


if __name__ == "__main__":
    mine = main()
    runpy.run_path(sys.argv[0], run_name="__main__")
    if mine["brief"]:  # what is loaded takes 0.4 s of processor time to end
        sys.stdout.flush()
        os._exit(0)
