"""What a test of tests/pytorch is, and the one who runs them."""

import collections
import concurrent.futures
import os
import re
import sys
import threading
import time
import traceback

from stack import BACKENDS

RANKS = [int(word) for word in os.environ.get("PYTORCH_RANKS", "2 4").split()]
JOBS = int(os.environ.get("PYTORCH_JOBS", "3"))


class Failure(Exception):
    """What went wrong, in a line, and the output of the run where it did."""

    def __init__(self, why, result=None):
        super().__init__(why)
        self.result = result


class Skip(Exception):
    pass


class Case:
    def __init__(self, name, act, weight=1):
        """act(stack): returns a remark or nothing; raises Failure or Skip. weight: cases of more are begun first."""
        self.name, self.act, self.weight = name, act, weight


def backends():
    """Names and environments of those that were asked for."""
    wanted = os.environ.get("PYTORCH_BACKENDS", " ".join(BACKENDS)).split()
    return [(name, BACKENDS[name]) for name in wanted]


def check(result, what):
    """The run must have ended well."""
    if result.stuck:
        raise Failure(f"{what}: still there after {result.seconds:.0f} s", result)
    if result.status != 0:
        raise Failure(f"{what}: status {result.status}", result)
    return result


def must_say(result, text):
    if not re.search(text, result.output):
        raise Failure(f"nobody says {text!r}", result)


def run_one(case, stack):
    begin = time.monotonic()
    try:
        verdict, why, result = "passed", case.act(stack) or "", None
    except Skip as skip:
        verdict, why, result = "skipped", str(skip), None
    except Failure as failure:
        verdict, why, result = "FAILED", str(failure), failure.result
    except Exception:
        verdict, why, result = "FAILED", traceback.format_exc(), None
    return verdict, why, result, time.monotonic() - begin


def run_all(cases, stack):
    """Runs those whose names match PYTORCH_CASES, says each, and at last how many passed. Returns whether none failed."""
    chosen = [case for case in cases if re.search(os.environ.get("PYTORCH_CASES", ""), case.name)]
    counts, reasons = {"passed": 0, "FAILED": 0, "skipped": 0}, collections.Counter()
    lock = threading.Lock()

    def act(case):
        verdict, why, result, seconds = run_one(case, stack)
        with lock:
            counts[verdict] += 1
            if verdict == "skipped":
                reasons[why] += 1
            print(f"check-pytorch: {verdict:7} {case.name} ({seconds:.1f} s){': ' + why if why else ''}", flush=True)
            if result:
                sys.stdout.write("".join(f"    | {line}\n" for line in result.output.splitlines()[-40:]))
                sys.stdout.flush()

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(act, sorted(chosen, key=lambda case: -case.weight)))
    print(f"check-pytorch: {stack.processor:.0f} s of processor time")
    for why, count in reasons.most_common():
        print(f"check-pytorch: {count} skipped: {why}")
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['FAILED']} failed{skipped}", flush=True)
    return counts["FAILED"] == 0
