"""Scripts of tests/pytorch/scripts: what real PyTorch has shown to be difficult; and those of docs/examples."""

import re

from cases import Case, Failure, Skip, backends, check, must_say
from stack import HERE, PACKAGES, ROOT

SCRIPTS = HERE / "scripts"
EXAMPLES = ROOT / "docs/examples"


def all_ranks_say(result, ranks, text):
    for rank in range(ranks):
        must_say(result, f"RESULT {rank} {text}")


def sum_of_all(ranks):
    """What the scripts print at last."""
    return r"sum \[" + ", ".join([f"{sum(range(1, ranks + 1))}.0"] * 3) + r"\]"


def weights(result, epoch):
    """By rank, of those that have printed them."""
    return dict(re.findall(rf"rank (\d+) epoch {epoch} batches .*? weights (\[[^]\n]*\])", result.output))


def are_same(found, ranks):
    return len(found) == ranks and len(set(found.values())) == 1


def same_weights(result, ranks):
    """All ranks have the same weights after each of three epochs."""
    for epoch in range(3):
        found = weights(result, epoch)
        if not are_same(found, ranks):
            raise Failure(f"epoch {epoch}: not the same weights on all ranks: {found}", result)


def right_sum(ranks, script, *options, limit=200):
    """With nccl-join the sum after it all is that of all ranks, and nothing was a guess; without, the script does not get there."""

    def act(stack, environment):
        result = check(stack.with_join.run([SCRIPTS / script, *options], ranks, environment, limit), "with nccl-join")
        all_ranks_say(result, ranks, sum_of_all(ranks))
        if "call nccl_join_leave where a loop ends" in result.output:
            raise Failure("a WARN of places, which can all be known here", result)
        without = stack.without.run([SCRIPTS / script, *options], ranks, {**environment, "LOOPBACK_DEATH": "hang"}, 60, stuck_after="out of data")
        if without.status == 0:
            raise Failure("came through without nccl-join", without)
        return result

    return act


def parts(ranks, *options):
    """The same where ranks come to a collective of their half first."""
    whole = right_sum(ranks, "parts.py", *options)
    half = ranks // 2
    sums = [sum(range(1, half + 1)), sum(range(half + 1, ranks + 1))]

    def act(stack, environment):
        result = whole(stack, environment)
        for rank in range(ranks):
            must_say(result, rf"RESULT {rank} half \[{sums[rank // half]}.0, {sums[rank // half]}.0\]")

    return act


def monitored(stack, environment):
    """The barrier ends when it was told to, and names the rank, as without nccl-join; and when its rank ends, so does the one that is held in its call."""
    for join, starter in (("with nccl-join", stack.with_join), ("without", stack.without)):
        result = starter.run([SCRIPTS / "monitored.py"], 2, {**environment, "LOOPBACK_DEATH": "hang"}, 100)
        if result.stuck or result.status == 0:
            raise Failure(f"{join}: {'still there' if result.stuck else 'came through'}", result)
        must_say(result, "RESULT 0 waited as long as it was told")
        must_say(result, "Rank 1 failed to pass monitoredBarrier")
        if starter is stack.with_join:
            must_say(result, "rank 0 failed .*; rank 1, parked in allreduce.* is released")


def example(ranks, script, package):
    """All ranks end, and have the same weights after each of three epochs; without nccl-join they do not get through the first: NCCL itself may take a
    gradient for what comes after the loop, and one of them goes on with what that makes."""

    def act(stack, environment):
        if not (PACKAGES / package).is_dir():
            raise Skip(f"{package} is not there")
        result = check(stack.with_join.run([EXAMPLES / script], ranks, environment, 200), "with nccl-join")
        same_weights(result, ranks)
        without = stack.without.run([EXAMPLES / script], ranks, {**environment, "LOOPBACK_DEATH": "hang"}, 60, stuck_after="MISMATCH")
        if without.status == 0 or are_same(weights(without, 0), ranks):
            raise Failure("came through without nccl-join", without)

    return act


NOT_REBUILT = "may be summed with those of other parameters"


def layout(stack, environment):
    """A rank without a batch until the others have laid their gradients out anew: its first iteration is told of, and the others are right. With one batch
    all are. So it is of a model that is made later."""
    for words, wrong in ("5,0/3,3", 1), ("5,1/3,3", None), ("2,0/0,0/4,2", 2), ("3,2//3,0/2,2", 3), ("3,2//3,1/2,2", None):
        lengths = [tuple(int(word) for word in epoch.split(",") if word) for epoch in words.split("/")]
        result = check(stack.with_join.run([SCRIPTS / "layout.py", words], 2, environment, 100), words)
        for epoch, epoch_lengths in enumerate(lengths):
            for rank, n in enumerate(epoch_lengths):
                must_say(result, rf"RESULT {rank} {epoch} {n - (epoch == wrong)}(?!\d)")
        if (NOT_REBUILT in result.output) != (wrong is not None):
            raise Failure("no WARN" if wrong is not None else "a WARN", result)
    stopped = stack.with_join.run([SCRIPTS / "layout.py", "5,0/3,3"], 2, {**environment, "NCCL_JOIN_UNSURE": "stop"}, 100)
    if stopped.stuck or stopped.status == 0:
        raise Failure("not stopped", stopped)
    must_say(stopped, NOT_REBUILT)


def buffers(iterations, evaluations):
    """Who has no batch to train with, or none to evaluate, broadcasts buffers where the others do not, and all gradients are right."""

    def act(stack, environment):
        result = check(stack.with_join.run([SCRIPTS / "buffers.py", iterations, evaluations], iterations.split("/")[0].count(",") + 1, environment, 100), iterations)
        for epoch, (trained, evaluated) in enumerate(zip(iterations.split("/"), evaluations.split("/"))):
            batches = sum(int(n) for n in evaluated.split(","))
            for rank, n in enumerate(trained.split(",")):
                must_say(result, rf"RESULT {rank} {epoch} {n} {batches}(?!\d)")

    return act


BUFFERS = [("3,3/3,0/3,3", "3,3/0,3/3,3"), ("2,2,2/2,3,2/3,0,2/2,3,3", "2,2,2/3,2,2/0,2,3/3,3,2"), ("4,4/4,4/4,4/4,0/4,4", "4,4/4,4/4,4/0,4/4,4")]


def each_epoch_says(result, words, last):
    """RESULT <rank> <epoch> <iterations, all of them> <last(rank)>."""
    for epoch, lengths in enumerate(words.split("/")):
        for rank, n in enumerate(lengths.split(",")):
            must_say(result, rf"RESULT {rank} {epoch} {n} {last(rank)}(?!\d)")


def left_alone(result):
    if "NCCL-JOIN WARN" in result.output or "inputs were uneven" in result.output:
        raise Failure("an even script is not left alone", result)


def no_guess(result, even):
    """Of an even script: nor anything else."""
    if even:
        left_alone(result)
    elif "NCCL-JOIN WARN" in result.output:
        raise Failure("a WARN", result)


ENDS = {"meters": 3, "callbacks": 2, "parameters": 4, "also": 4, "sharded": 1, "branch": 4}  # sums at the end of an epoch
ENDS_EPOCHS = [(2, "4,3/2,3/1,5"), (2, "2,2/0,2/2,2"), (2, "0,3/2,2"), (2, "3,3/3,0/0,2/4,4/1,0"), (3, "1,2,1/2,1,1/3,0,2/2,3,3"), (4, "2,2,2,2/0,3,0,1/1,0,2,2")]


def ends(ranks, how, words, even=False):
    """All comes right, whoever has no batch in an epoch, and nothing is a guess where rounds tell."""

    def act(stack, environment):
        result = check(stack.with_join.run([SCRIPTS / "ends.py", how, words], ranks, environment, 100), words)
        each_epoch_says(result, words, lambda rank: ENDS[how])
        if even:
            left_alone(result)
        elif "NCCL-JOIN WARN" in result.output and how not in ("sharded", "branch"):
            raise Failure("a WARN", result)

    return act


# Which ranks' numbers come. A send makes a communicator of its two ranks in PyTorch's legacy backend, when both call it first.
CAME = {"gather": lambda rank, ranks: ranks if rank == 0 else 0, "scatter": lambda rank, ranks: 1, "send": lambda rank, ranks: ranks - 1 if rank == 0 else 0}


def behind(ranks, how, words, even=False):
    """What comes right behind a loop of gradients comes when all have left it, whatever is known of the order of both."""

    def act(stack, environment):
        result = check(stack.with_join.run([SCRIPTS / "behind.py", how, words], ranks, environment, 100), words)
        each_epoch_says(result, words, lambda rank: CAME[how](rank, ranks))
        if even:
            left_alone(result)

    return act


BEHIND = [(2, how, "4,3/2,2/3,4/1,1") for how in ("gather", "scatter")] + [(2, "send", "3,3/4,3/2,2/3,4")] + [(3, "gather", "3,4,3/3,3,4/2,4,4"), (3, "scatter", "4,2,3/3,3,1/5,4,4")]


def loops(how, words, even=False):
    """All gradients are those of their loop, and nothing is a guess."""

    def act(stack, environment):
        epochs = [[[int(word) for word in loop.split(",")] for loop in epoch.split("+")] for epoch in words.split("/")]
        ranks = len(epochs[0][0])
        result = check(stack.with_join.run([SCRIPTS / "loops.py", how, words], ranks, environment, 100), words)
        for epoch, lengths in enumerate(epochs):
            for rank in range(ranks):
                must_say(result, rf"RESULT {rank} {epoch} {sum(loop[rank] for loop in lengths)}(?!\d)")
        no_guess(result, even)

    return act


LOOPS = ["3,5+3,5", "3,5+5,3/4,4+2,2", "2,3+3,1/1,2+2,4/4,1+1,1", "3,1,2+2,2,3/1,3,2+4,1,1"]


def epochs(how, words, even=False, guess=False):
    """All gradients are those of their epoch, and nothing is a guess, but where DistributedDataParallel puts the gradients of a rank in order later than others'."""

    def act(stack, environment):
        result = check(stack.with_join.run([SCRIPTS / "epochs.py", how, words], words.split("/")[0].count(",") + 1, {**environment, "NCCL_JOIN_EPOCHS": "wait"}, 100), words)
        for epoch, lengths in enumerate(words.split("/")):
            for rank, n in enumerate(lengths.split(",")):
                must_say(result, rf"RESULT {rank} {epoch} {int(n) + 100 * (how == 'every' and epoch % 2)}(?!\d)")
        if not guess:
            no_guess(result, even)

    return act


def epochs_mixed(how, words):
    """As long as nothing is asked for they mix, and that is told; not where none is uneven."""

    def act(stack, environment):
        even = all(len(set(lengths.split(","))) == 1 for lengths in words.split("/"))
        result = check(stack.with_join.run([SCRIPTS / "epochs.py", how, words], words.split("/")[0].count(",") + 1, environment, 100), words)
        if even:
            left_alone(result)
        else:
            must_say(result, r"NCCL-JOIN WARN rank \d begins round [23] of the outermost loop around .* at .*epochs.py:\d+")
        if "NCCL-JOIN WARN" in result.output and even:
            raise Failure("a WARN", result)

    return act


def failing(how, words):
    """A rank that fails has not run out of data, as it has in the epoch before; and where nobody wants anything of it, it is left alone."""

    def act(stack, environment):
        lengths = [int(word) for word in words.split(",")]
        failed, first = lengths.index(min(lengths)), min(lengths)
        result = stack.with_join.run([SCRIPTS / "failing.py", how, words], len(lengths), environment, 100)
        if result.stuck or result.status == 0:
            raise Failure("somebody stays for ever" if result.stuck else "came through", result)
        for epoch in range(2):
            for rank, i in ((rank, i) for rank, length in enumerate(lengths) for i in range(length)):
                right = sum(other + 1 for other, length in enumerate(lengths) if length > i)
                if epoch == 0 or i < first:
                    must_say(result, rf"RESULT {rank} {epoch} {i} {right}(?!\d)")
                elif i > first and re.search(rf"RESULT {rank} {epoch} {i} ", result.output):  # of the first the stand-in may leave the gradient as it was
                    raise Failure("a rank that has failed is answered for", result)
        if how == "all":
            left_alone(result)
        else:
            must_say(result, rf"rank {failed} leaves with an exception under way \(Failure at failing.py:\d+\)")

    return act


def case(name, act, environment):
    def run(stack):
        act(stack, environment)

    return Case(name, run)


def cases():
    wanted = [(2, "zero.py", *options) for options in (("1,3", "barrier"), ("0,3", "barrier"), ("2,3", "barrier"), ("0,3",), ("1,3", "barrier", "buffers"))]
    wanted += [(2, "zero.py", lengths, "group") for lengths in ("1,3", "3,1", "0,3")] + [(4, "zero.py", "2,5,1,4", "group")]
    wanted += [(4, "parts.py", lengths, *ready) for lengths in ("2,5,1,4", "0,3,3,1") for ready in ((), ("ready",))]
    wanted += [(2, "cells.py", "0,2"), (2, "cells.py", "1,3"), (2, "slow.py")]
    for backend, environment in backends():
        yield case(f"{backend}, 2 ranks: layout.py", layout, environment)
        for iterations, evaluations in BUFFERS:
            yield case(f"{backend}: buffers.py {iterations}", buffers(iterations, evaluations), environment)
        for how in ENDS:
            for ranks, words in ENDS_EPOCHS[:3] if how == "branch" else ENDS_EPOCHS:
                yield case(f"{backend}, {ranks} ranks: ends.py {how} {words}", ends(ranks, how, words), environment)
            yield case(f"{backend}, 2 ranks: ends.py {how}: even", ends(2, how, "2,2/3,3/70,70/0,0/0,0/1,1", True), environment)
        for ranks, how, words in BEHIND:
            yield case(f"{backend}, {ranks} ranks: behind.py {how} {words}", behind(ranks, how, words), environment)
        for how in ("models", "one", "hook"):
            for words in LOOPS:
                yield case(f"{backend}: loops.py {how} {words}", loops(how, words), environment)
            yield case(f"{backend}: loops.py {how}: even", loops(how, "3,3+3,3/2,2+4,4/30,30+1,1", True), environment)
        for how in ("plain", "function", "accumulate", "every", "thread"):
            for words in ("3,5/5,3/4,4", "2,4/0,3/3,1/2,2", "4,2,6/4,2,7/1,3,5"):
                yield case(f"{backend}: epochs.py {how} {words}", epochs(how, words), environment)
            yield case(f"{backend}: epochs.py {how}: even", epochs(how, "3,3/2,2/0,0/30,30/1,1", True), environment)
        for words in ("2,3,2,3/3,2,3,2", "3,5,2,2/4,1,3,2/2,4,1,5", "3,3,5,5/5,5,3,3"):
            yield case(f"{backend}: epochs.py pairs {words}", epochs("pairs", words), environment)
        for how, words in (("pairs", "0,0,2,2/2,1,2,2/2,2,2,2"), ("plain", "0,3/3,3/2,4"), ("function", "2,0,0/3,2,0/2,2,2"), ("thread", "3,0/1,3/2,2")):
            yield case(f"{backend}: epochs.py {how} {words}", epochs(how, words, guess=True), environment)
        yield case(f"{backend}: epochs.py pairs: even", epochs("pairs", "3,3,3,3/2,2,2,2/4,4,4,4", True), environment)
        for how, words in (("plain", "3,5/5,3/4,4"), ("function", "4,2,6/4,2,7/1,3,5"), ("accumulate", "2,4/3,1/2,2"), ("plain", "3,3/2,2/0,0/30,30/1,1"), ("function", "3,3/2,2/1,1"), ("thread", "3,5/5,3/4,4")):
            yield case(f"{backend}: epochs.py {how} {words}: mixed", epochs_mixed(how, words), environment)
        for how, words in (("finally", "2,4"), ("with", "5,3,5"), ("atexit", "4,2"), ("all", "3,3")):
            yield case(f"{backend}: failing.py {how} {words}", failing(how, words), environment)
        for how in CAME:
            yield case(f"{backend}, 2 ranks: behind.py {how}: even", behind(2, how, "4,4/2,2/30,30", True), environment)
        for ranks, script, *options in wanted:
            act = parts(ranks, *options) if script == "parts.py" else right_sum(ranks, script, *options)
            yield case(f"{backend}, {ranks} ranks: {' '.join([script, *options])}", act, environment)
        yield case(f"{backend}, 2 ranks: monitored.py", monitored, environment)
        for script, package in (("ddp.py", "torch"), ("with_accelerate.py", "accelerate")):
            yield case(f"{backend}, 3 ranks: {script} of docs/examples", example(3, script, package), environment)
