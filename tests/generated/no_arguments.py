"""The classes of optimised.py and alike.py, with each collective in a function of its own that has no arguments: it is called
`sum();`, and nothing that a call passes says which of two it is. Some check for an error behind each call."""

import random as random_module

import alike
import optimised

FORMS = ("no_arguments",)


def with_checks(make):
    def made(random, spec):
        make(random, spec)
        spec["checked"] = random_module.Random(f"checked {spec['seed']}").random() < 0.4
    return made


CLASSES = {name: with_checks(make) for name, make in {**optimised.CLASSES, **alike.CLASSES}.items()}
compiler = optimised.compiler
