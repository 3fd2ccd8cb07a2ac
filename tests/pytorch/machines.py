"""PyTorch's launcher on several machines, which are namespaces of this one (tests/machines/start.c)."""

import os
import re
import signal
import subprocess
import tempfile
import time

from cases import Case, Failure, Skip, backends, check
from own import EXAMPLES, SCRIPTS, all_ranks_say
from stack import BUILD, HERE, PYTHON, SURROUNDINGS, Result

START = BUILD / "machines/start"
NO_MACHINES = 69  # start.c
MACHINES = 2


def run(ranks, argv, environment, join=True, limit=300, stuck_after=None):
    """A job of `ranks` on each machine. stuck_after: once this has been said it is given up."""
    if not START.exists() or not (BUILD / "lib/nccl-join-agent").exists():
        raise Skip("there is no tests/machines/start or no nccl-join-agent")
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_JOIN", "LD_PRELOAD"))}
    with tempfile.TemporaryDirectory(prefix="pytorch-machines-") as folder, open(f"{folder}/log", "w+") as log:
        surroundings |= {**SURROUNDINGS, "PYTHON": PYTHON, "JOIN_TEST_BUILD": str(BUILD), "NCCL_JOIN_MACHINES": "1", "NCCL_JOIN": str(int(join)),
                         "NCCL_JOIN_MACHINES_WAIT": "60", "NCCL_SOCKET_IFNAME": "eth0", "LOOPBACK_FOLDER": folder, **environment}
        command = [START, ",".join(["1"] * MACHINES), HERE / "by_torchrun", str(ranks), *argv]
        begin = time.monotonic()
        job = subprocess.Popen([str(word) for word in command], env=surroundings, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        status = None
        while status is None and time.monotonic() - begin < limit:
            status = job.poll()
            if stuck_after and stuck_after in open(log.name).read():
                break
            time.sleep(0.25)
        if status is None:
            os.killpg(job.pid, signal.SIGKILL)  # all that is on the machines goes with them
            job.wait()
        if status == NO_MACHINES:
            raise Skip("no namespaces can be made here")
        return Result(status, time.monotonic() - begin, open(log.name).read())


def example(environment):
    """All ranks have the same weights after each of three epochs; without nccl-join they do not come to their end."""

    def act(_):
        ranks = 2 * MACHINES
        result = check(run(2, [EXAMPLES / "ddp.py"], environment), "over machines")
        for epoch in range(3):
            found = dict(re.findall(rf"rank (\d+) epoch {epoch} batches .*? weights (\[[^]\n]*\])", result.output))
            if len(found) != ranks or len(set(found.values())) != 1:
                raise Failure(f"epoch {epoch}: not the same weights on all ranks: {found}", result)
        without = run(2, [EXAMPLES / "ddp.py"], {**environment, "LOOPBACK_DEATH": "hang"}, join=False, limit=120, stuck_after="MISMATCH")
        if without.status == 0:
            raise Failure("came through without nccl-join", without)

    return act


def right_sum(ranks, script, options, environment):
    """The sum after it all is that of all ranks (tests/pytorch/scripts)."""

    def act(_):
        world = ranks * MACHINES
        result = check(run(ranks, [SCRIPTS / script, *options], environment), "over machines")
        all_ranks_say(result, world, r"sum \[" + ", ".join([f"{sum(range(1, world + 1))}.0"] * 3) + r"\]")

    return act


def cases():
    for backend, environment in backends():
        name = f"{backend}, torchrun --nnodes {MACHINES}"
        yield Case(f"{name}, 4 ranks: ddp.py of docs/examples", example(environment))
        yield Case(f"{name}, 2 ranks: zero.py 1,3 barrier", right_sum(1, "zero.py", ["1,3", "barrier"], environment))
        yield Case(f"{name}, 4 ranks: parts.py 2,5,1,4", right_sum(2, "parts.py", ["2,5,1,4"], environment))
