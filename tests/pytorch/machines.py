"""PyTorch's launcher on several machines, which are namespaces of this one (tests/machines/start.c)."""

import os
import pathlib
import signal
import subprocess
import tempfile
import time

from cases import Case, Failure, Skip, backends, check
from own import EXAMPLES, SCRIPTS, all_ranks_say, same_weights, sum_of_all
from stack import BUILD, HERE, PYTHON, Result, surroundings

START = BUILD / "machines/start"
NO_MACHINES = 69  # start.c
MACHINES = 2


def run(ranks, argv, environment, join=True, limit=300, stuck_after=None):
    """A job of `ranks` on each machine. stuck_after: once this has been said it is given up."""
    if not START.exists() or not (BUILD / "lib/nccl-join-agent").exists():
        raise Skip("there is no tests/machines/start or no nccl-join-agent")
    with tempfile.TemporaryDirectory(prefix="pytorch-machines-") as folder, open(f"{folder}/log", "w", encoding="utf-8") as log:
        said = pathlib.Path(log.name)
        given = surroundings(PYTHON=PYTHON, JOIN_TEST_BUILD=str(BUILD), NCCL_JOIN_MACHINES="1", NCCL_JOIN=str(int(join)), NCCL_JOIN_MACHINES_WAIT="60",
                             NCCL_SOCKET_IFNAME="eth0", LOOPBACK_FOLDER=folder, **environment)
        command = [START, ",".join(["1"] * MACHINES), HERE / "by_torchrun", str(ranks), *argv]
        begin = time.monotonic()
        job = subprocess.Popen([str(word) for word in command], env=given, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        status = None
        while status is None and time.monotonic() - begin < limit and not (stuck_after and stuck_after in said.read_text(errors="replace")):
            time.sleep(0.25)
            status = job.poll()
        if status is None:
            os.killpg(job.pid, signal.SIGKILL)  # all that is on the machines goes with them
            job.wait()
        if status == NO_MACHINES:
            raise Skip("no namespaces can be made here")
        return Result(status, time.monotonic() - begin, said.read_text(errors="replace"))


def example(environment):
    """All ranks have the same weights after each of three epochs; without nccl-join they do not come to their end."""

    def act(_):
        same_weights(check(run(2, [EXAMPLES / "ddp.py"], environment), "over machines"), 2 * MACHINES)
        without = run(2, [EXAMPLES / "ddp.py"], {**environment, "LOOPBACK_DEATH": "hang"}, join=False, limit=120, stuck_after="MISMATCH")
        if without.status == 0:
            raise Failure("came through without nccl-join", without)

    return act


def right_sum(ranks, script, options, environment):
    """The sum after it all is that of all ranks (tests/pytorch/scripts)."""

    def act(_):
        result = check(run(ranks, [SCRIPTS / script, *options], environment), "over machines")
        all_ranks_say(result, ranks * MACHINES, sum_of_all(ranks * MACHINES))

    return act


def cases():
    for backend, environment in backends():
        name = f"{backend}, torchrun --nnodes {MACHINES}"
        yield Case(f"{name}, 4 ranks: ddp.py of docs/examples", example(environment))
        yield Case(f"{name}, 2 ranks: zero.py 1,3 barrier", right_sum(1, "zero.py", ["1,3", "barrier"], environment))
        yield Case(f"{name}, 4 ranks: parts.py 2,5,1,4", right_sum(2, "parts.py", ["2,5,1,4"], environment))
