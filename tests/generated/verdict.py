"""What the records of a run say: which calls met in a collective, and whether they should have.

A file of results is what job.c writes, for each program: magic, program, ranks, hung; for each rank: calls, finished,
error, status, bytes of stderr; its calls; its stderr. All are 32-bit numbers of this machine.

Calls that are seen in one result have met; so have those that are seen in results that share one.
"""

import re
import struct

MAGIC = 0x4A4F4231
CALL = struct.Struct("=HHHBBI6hQ")
ISSUED, DONE, GARBAGE, FAILED = range(4)
STATE_MARKS = "?", "", "#", "!"  # in schedules
STATUS_MISMATCH = 86  # of the loopback: ranks mean different collectives
SIGNAL_KILL = 9

# What can be wrong with a program, worst first.
FAULTS = ("hang", "crash", "mismatch", "error", "garbage", "wrong", "silent", "deviates", "unmet", "other_epoch", "split",
          "as_alone", "warned")


class Rank:
    def __init__(self, calls, finished, error, status, text):
        self.calls, self.finished, self.error, self.status, self.text = calls, finished, error, status, text


class Result:
    def __init__(self, program, hung, ranks):
        self.program, self.hung, self.ranks = program, hung, ranks


def read_results(path):
    """The results in a file; what a killed runner has left unfinished at its end is left out."""
    with open(path, "rb") as file:
        data = file.read()
    made, at = [], 0
    try:
        while at < len(data):
            magic, program, nranks, hung = struct.unpack_from("=4I", data, at)
            if magic != MAGIC:
                raise ValueError(f"{path}: not a file of results")
            at += 16
            ranks = []
            for _ in range(nranks):
                ncalls, finished, error, status, said = struct.unpack_from("=5I", data, at)
                at += 20
                calls = list(CALL.iter_unpack(data[at:at + ncalls * CALL.size]))
                at += ncalls * CALL.size
                text = data[at:at + said]
                at += said
                if len(calls) < ncalls or len(text) < said:
                    return made
                ranks.append(Rank(calls, finished, error, status, text))
            made.append(Result(program, hung, ranks))
    except struct.error:
        pass
    return made


def communicator(spec, axis, rank):
    """The ranks that rank's communicator on that axis has, as in job.c."""
    if spec["arrangement"] != "grid" or axis == 0:
        return range(spec["ranks"])
    tensor = spec["tensor"]
    if axis == 1:
        return range(rank // tensor * tensor, (rank // tensor + 1) * tensor)
    return range(rank % tensor, spec["ranks"], tensor)


class Meetings:
    """Sets of calls, each a pair of rank and number (from 0 on)."""

    def __init__(self, spec, ranks):
        self.first = [0]
        for rank in ranks:
            self.first.append(self.first[-1] + len(rank.calls))
        self.parents = list(range(self.first[-1]))
        self.garbage = []
        for number, rank in enumerate(ranks):
            self._look(spec, ranks, number, rank)

    def _find(self, node):
        parents = self.parents
        while parents[node] != node:
            parents[node] = node = parents[parents[node]]
        return node

    def _look(self, spec, ranks, number, rank):
        for at, call in enumerate(rank.calls):
            axis, state = call[3], call[4]
            own = self.first[number] + at
            if state == GARBAGE:
                self.garbage.append((number, at))
            if state != DONE:
                continue
            is_broadcast = spec["points"][call[0]]["collective"] == "broadcast"
            if not is_broadcast and call[6 + number] != at + 1:
                self.garbage.append((number, at))
                continue
            for peer, seen in enumerate(call[6:6 + len(ranks)]):
                if seen == 0 or peer == number and seen == at + 1:
                    continue
                if seen > len(ranks[peer].calls) or ranks[peer].calls[seen - 1][3] != axis:
                    self.garbage.append((number, at))
                    break
                a, b = self._find(own), self._find(self.first[peer] + seen - 1)
                if a != b:
                    self.parents[a] = b

    def all(self, ranks):
        """Lists of (rank, number, call)."""
        groups = {}
        for number, rank in enumerate(ranks):
            first = self.first[number]
            for at, call in enumerate(rank.calls):
                groups.setdefault(self._find(first + at), []).append((number, at, call))
        return list(groups.values())


def in_order(meetings, nranks):
    """The meetings in an order that every rank has: a dictionary from (rank, call) to place."""
    of_call = {(rank, at): index for index, met in enumerate(meetings) for rank, at, _ in met}
    missing = [len({rank for rank, _, _ in met}) for met in meetings]
    heads, places = [0] * nranks, {}
    ready = list(range(nranks))
    place = 0
    while ready:
        rank = ready.pop()
        index = of_call.get((rank, heads[rank]))
        if index is None:
            continue
        missing[index] -= 1
        if missing[index] > 0:
            continue
        for other, at, _ in meetings[index]:
            places[other, at] = place
        for other in sorted({other for other, _, _ in meetings[index]}):
            heads[other] += 1
            ready.append(other)
        place += 1
    return places


WARNING = re.compile(rb"NCCL-JOIN (?:WARN|ERROR) (.*)")
INDEX = re.compile(rb"\bat (?:collective |index )?(\d+)\b")


def warnings(spec, rank):
    """(call during which it was said, index that it names or None) of each WARN line of a rank."""
    made, end = [], 0
    for line in rank.text.split(b"\n"):
        end += len(line) + 1
        found = WARNING.search(line)
        if found is None:
            continue
        at = next((at for at, call in enumerate(rank.calls) if call[5] >= end), len(rank.calls))
        index = INDEX.search(found.group(1))
        made.append((at, int(index.group(1)) if index and spec["arrangement"] != "grid" else None))
    return made


def is_silent(spec, ranks, meetings, wrong):
    """Whether nothing was said at the first of the wrong meetings or before. A line that names no index may have been said
    at any that its rank waited at; one that does, at most as many later as there are ranks: some order is a guess."""
    places = in_order(meetings, len(ranks))
    late = len(places)
    first = min(places.get((rank, at), late) for met in wrong for rank, at, _ in met)
    for number, rank in enumerate(ranks):
        for at, index in warnings(spec, rank):
            if index is not None:
                if index <= first + len(ranks):
                    return False
            elif at == 0 or places.get((number, at - 1), late) < first:
                return False
    return True


def has_ends(spec):
    """Whether something all ranks do comes between its epochs."""
    if spec["script"]:
        return bool(spec["names"].keys() & {"bar", "end", "rest", "g", "v"})
    return bool(spec["after"] or spec["validate"] or spec["first"])


# Not all ranks see who met in these.
SEEN_BY_SOME = ("reduce", "ring", "forward", "backward")


def count_split(spec, meetings):
    """Collectives that calls of one point and epoch took, beyond the fewest that they could. Where nothing is between epochs they are one, or
    each is one by itself."""
    return min(count_split_by(spec, meetings, by_epoch) for by_epoch in ((True,) if has_ends(spec) else (True, False)))


def count_split_by(spec, meetings, by_epoch):
    """Left out are those of which nobody may see who met, if a rank has joined."""
    counts, calls = {}, {}
    for met in meetings:
        keys = set()
        for rank, _, call in met:
            point, epoch, axis = call[0], call[1] if by_epoch else 0, call[3]
            if spec["points"][point]["collective"] in SEEN_BY_SOME:
                continue
            key = (point, epoch, communicator(spec, axis, rank))
            keys.add(key)
            by_rank = calls.setdefault(key, {})
            by_rank[rank] = by_rank.get(rank, 0) + 1
        for key in keys:
            counts[key] = counts.get(key, 0) + 1
    return sum(counts[key] - max(calls[key].values()) for key in counts)


def count_other_epochs(meetings):
    """Meetings of one point in different epochs, of points to which a rank comes in several: behind the last epoch each has its own."""
    epochs = {}
    for rank, call in ((rank, call) for met in meetings for rank, _, call in met):
        epochs.setdefault((call[0], rank), set()).add(call[1])
    often = {point for (point, _), seen in epochs.items() if len(seen) > 1}
    return sum(1 for met in meetings
               if len({call[0] for _, _, call in met}) == 1 and met[0][2][0] in often and len({call[1] for _, _, call in met}) > 1)


def deviations(spec, ranks, meetings):
    """Of an even program: meetings in which not all ranks have made the same call."""
    bad = []
    for met in meetings:
        rank, _, call = met[0]
        if spec["points"][call[0]]["collective"] == "reduce":
            expected = None  # only the root's result shows who met; the root's group has all
            root = communicator(spec, call[3], rank)[call_root(spec, call)]
            if all(number != root for number, _, _ in met):
                bad.append(met)
                continue
        same = len({call[:4] for _, _, call in met}) == 1
        whole = [number for number, _, _ in sorted(met)] == list(communicator(spec, call[3], rank))
        if not (same and whole):
            bad.append(met)
    return bad


def all_call_alike(spec, ranks):
    """Whether all ranks have made calls of the same signatures: without nccl-join the program works, too."""
    return len({tuple(tuple(spec["points"][call[0]].values()) for call in rank.calls) for rank in ranks}) == 1


def is_as_alone(ranks, met):
    """Whether a meeting is that of a program without nccl-join, if all ranks call alike."""
    return len({at for _, at, _ in met}) == 1 and len(met) == len(ranks)


def call_root(spec, call):
    return spec["points"][call[0]]["root"]


def judge(spec, result, reference=None):
    """Faults and how many of each. reference: the result of an even program without nccl-join."""
    ranks = result.ranks
    found = {}
    statuses = [rank.status for rank in ranks]
    exits = [status >> 8 & 0xFF for status in statuses]
    signals = [status & 0x7F for status in statuses]
    if any(signal not in (0, SIGNAL_KILL) for signal in signals) or SIGNAL_KILL in signals and not result.hung:
        found["crash"] = 1
    elif STATUS_MISMATCH in exits:
        found["mismatch"] = 1
    elif any(exits) or not result.hung and not all(rank.finished for rank in ranks):
        found["error"] = 1
    elif result.hung:
        found["hang"] = 1
    met = Meetings(spec, ranks)
    meetings = met.all(ranks)
    twice = any(len({rank for rank, _, _ in met}) < len(met) for met in meetings)
    if (met.garbage or twice) and not found:  # what is left behind by a rank that has failed may be anything
        found["garbage"] = max(1, len(met.garbage))
    wrong = [met for met in meetings if len({call[0] for _, _, call in met}) > 1]
    alone = []
    if wrong and not spec["even"] and spec["arrangement"] != "grid" and all_call_alike(spec, ranks):
        alone = [met for met in wrong if is_as_alone(ranks, met)]
    if alone:
        found["as_alone"] = len(alone)
        wrong = [met for met in wrong if met not in alone]
    if wrong:
        found["wrong"] = len(wrong)
        if is_silent(spec, ranks, meetings, wrong):
            found["silent"] = 1
    others = count_other_epochs(meetings)
    if others:
        found["other_epoch"] = others
    if not result.hung and not any(statuses):
        split = count_split(spec, meetings)
        if split:
            found["split"] = split
    warned = any(warnings(spec, rank) for rank in ranks)
    if (spec["even"] or not wrong) and warned:
        found["warned"] = 1
    if not warned and not spec["even"] and ("split" in found or others):
        found["unmet"] = found.get("split", 0) + others  # without a word
    if spec["even"]:
        apart = deviations(spec, ranks, meetings)
        if apart and is_silent(spec, ranks, meetings, apart):
            found["silent"] = 1
        bad = len(apart)
        if reference is not None:
            for rank, expected in zip(ranks, reference.ranks):
                ours = [call[:5] + call[12:] for call in rank.calls]
                theirs = [call[:5] + call[12:] for call in expected.calls]
                bad += sum(a != b for a, b in zip(ours, theirs)) + abs(len(ours) - len(theirs))
        if bad:
            found["deviates"] = bad
    return found


def schedule(spec, result, most=60):
    """The calls of each rank as a text, one line a meeting, marked where points differ."""
    meetings = Meetings(spec, result.ranks).all(result.ranks)
    places = in_order(meetings, len(result.ranks))
    late = len(places)
    lines = []
    for met in sorted(meetings, key=lambda met: places.get(met[0][:2], late)):
        columns = {rank: f"{call[0]}:{call[1]}.{call[2]}{STATE_MARKS[call[4]]}" for rank, _, call in met}
        mark = " WRONG" if len({call[0] for _, _, call in met}) > 1 else ""
        mark = mark or (" other epoch" if len({call[1] for _, _, call in met}) > 1 else "")
        lines.append("  " + "".join(f"{columns.get(rank, '-'):>10}" for rank in range(len(result.ranks))) + mark)
    marked = (at for at, line in enumerate(lines) if line.endswith(("WRONG", "epoch")))
    first = next(marked, len(lines) if result.hung else 0)
    start = max(0, min(first - most // 2, len(lines) - most))
    head = "  " + "".join(f"{'rank ' + str(rank):>10}" for rank in range(len(result.ranks))) + "   point:epoch.iteration"
    return "\n".join([head] + (["  ..."] if start else []) + lines[start:start + most])
