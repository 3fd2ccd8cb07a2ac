"""The points of a script, and the numbers that all scripts have."""

from shapes import base_length, counts, has_common_flow, new_point, scalar_for


class Points:
    """The points of a script, by name."""

    def __init__(self, random, spec, alike=0.55):
        self.random, self.spec = random, spec
        self.alike = random.random() < alike
        spec["names"] = {}
        spec["root"] = [random.randrange(spec["ranks"])] * 2

    def add(self, name, like=None, scalar=False, **wanted):
        """like: name of the point that it looks like, if it does to one at all; wanted: parts of its signature."""
        random, spec = self.random, self.spec
        looks = like if like is not None else random.choice(sorted(spec["names"]) or [None])
        if looks is not None and self.alike and random.random() < (0.6 if like is None else 0.9):
            number = new_point(random, spec, like=spec["names"][looks])
        elif scalar:
            spec["points"].append(scalar_for(random, spec))
            number = len(spec["points"]) - 1
        else:
            number = new_point(random, spec)
        spec["points"][number].update(wanted)
        spec["names"][name] = number
        return name

    def barrier(self, indent=8):
        """What comes after an epoch, if anything does."""
        if self.random.random() < 0.25:
            return ""
        return " " * indent + self.add("bar", scalar=True) + "()\n"


def begin(random, spec, each=4, empty=0.1, own_data=False, alike=0.55):
    """Its counts, mostly uneven. each: collectives of an iteration, at most."""
    spec["each"] = each
    how = random.choice(("even", "constant", "varying", "sometimes", "constant", "varying"))
    none = random.choice(("first", "later", "any")) if how != "even" and random.random() < empty else "none"
    spec["iterations"] = counts(random, spec, how, min(base_length(random), 12), none)
    spec["own_data"] = own_data and how != "even"
    spec["merged"] = spec["kind"] == "c" and random.random() < 0.15
    return Points(random, spec, alike)


def second_loop(random, spec):
    """Counts for N2."""
    how = "even" if has_common_flow(spec) else random.choice(("even", "varying", "constant"))
    spec["validate"] = {"points": [], "counts": counts(random, spec, how, min(base_length(random), 8))}
