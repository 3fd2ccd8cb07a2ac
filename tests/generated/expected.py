"""What is expected of each class of programs: 0 for a fault that no program may have, None for one that is only counted.

Programs are counted by class, by whether nccl-join can see where their calls stand (one wrapper for all of them hides that),
and by whether every rank has an iteration in its first epoch. This is what nccl-join shall hold; what it does not is printed
as such, and makes the status 1.
"""

# Coroutines of C++: each way round a loop leaves the function, and comes back by a switch at its beginning. Nor are two calls
# that a compiler has made one of seen apart.
HIDDEN_FORMS = ("coroutine",)

NEVER = {"hang": 0, "crash": 0, "mismatch": 0, "error": 0, "garbage": 0}

# Even programs: nothing at all.
# (A WARN may be: where two points of one loop that look alike come by conditions of their own, or where a compiler may have made
# two calls of one. So it may in uneven ones that are right.)
EVEN = dict(NEVER, wrong=0, silent=0, deviates=0, other_epoch=0, split=0, warned=None)

# Even programs whose ranks come to their collectives in ways of their own (ways.py): these may be taken for uneven, but not without a
# word.
WAYS = dict(EVEN, wrong=None, deviates=None, other_epoch=None, split=None)

# Calls at places that can be seen, and every rank has data in its first epoch.
VISIBLE = dict(NEVER, wrong=0, silent=0, deviates=0, unmet=None, other_epoch=None, split=None, as_alone=None, warned=None)

# The same, with a rank without data in its first epoch: wrong now and then, but never without a word.
VISIBLE_EMPTY = dict(VISIBLE, wrong=None)

# A coroutine, or calls that the compiler has merged.
HIDDEN = dict(VISIBLE, wrong=None, silent=None)

# Told, but not prevented: docs/limits.md.
TOLD = dict(wrong=None)

# Rings and pipelines: docs/limits.md. They may also wait, or meet others of another size; but not without a word.
MESSAGES = dict(wrong=None, silent=0, hang=None, mismatch=None, error=None)

# Classes whose ranks meet, or are told, where every rank has data in its first epoch. (In others they issue something by counts
# of their own, or nothing stands between their epochs.)
MET = ("all_to_alls", "begins_alike", "checkpoints", "constant", "early_stopping", "empty_later", "ends_in_else", "hooks",
       "loss_like_barrier", "one_unit", "phases", "torn", "two_communicators", "uneven_branches", "validation_even",
       "validation_uneven", "validation_like_training", "varying")

# Classes that allow more than that.
CLASSES = {
    "ends_in_else": TOLD, "ends_in_a_function": TOLD, "next_that_ends": TOLD, "states": TOLD, "last_batch": TOLD,
    "threaded_conditions": TOLD, "exceptions_that_end": TOLD,
    "several_models": TOLD, "remainders": TOLD, "counted_steps": TOLD, "in_turn": TOLD, "phase_table": TOLD, "some_conditions": TOLD, "early_stop": TOLD, "recursion": TOLD, "hooks": TOLD, "loops_in_loops": TOLD,
    "rings": MESSAGES, "pipelines": MESSAGES,
    # What a compiler makes of a loop of two rounds may say none; and who begins a round later than others are through with it can tell
    # only then.
    "one_line": dict(wrong=None, silent=None),
    # Ranks that share a tensor parallel group have different numbers of iterations.
    "grid_by_rank": dict(wrong=None, silent=None),
}


# What holds today, and of rings and pipelines that nothing is silent.
TODAY = dict(NEVER, wrong=None, silent=None, unmet=None, other_epoch=None, split=None, as_alone=None, warned=None)


def is_hidden(spec):
    return spec["form"] in HIDDEN_FORMS or spec["merged"]


def expectation(spec, today=False):
    """What holds for a program of this kind."""
    if spec["even"]:
        return WAYS if spec["kind"] == "ways" or spec["class"] == "leader" else EVEN
    met = {"unmet": 0} if spec["class"] in MET and not is_hidden(spec) and not spec["empty_first"] else {}
    if today:
        return {**TODAY, **(CLASSES[spec["class"]] if CLASSES.get(spec["class"]) is MESSAGES else met)}
    made = HIDDEN if is_hidden(spec) else VISIBLE_EMPTY if spec["empty_first"] else VISIBLE
    return {**made, **met, **CLASSES.get(spec["class"], {})}


def is_asserted(name):
    """Whether programs of that class may at least not hang."""
    return CLASSES.get(name) is not MESSAGES


def is_grave(faults):
    """Whether a program must be named even where many go wrong."""
    return bool(set(faults) & {*NEVER, "deviates"})


def unexpected(spec, found, today=False):
    """The faults of a program that it may not have."""
    allowed = expectation(spec, today)
    return [fault for fault in found if allowed.get(fault, 0) == 0]
