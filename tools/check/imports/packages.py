"""What is installed: the shared objects of a package, and of those that it requires."""
import os
import re

from records import SHARED_OBJECT, say, walk

# Modules of a namespace that a package looks through for plug-ins (jax's xla_bridge.py).
PLUGINS = {"jax": ["jax_plugins"]}


class Packages:
    """What is installed, by what pip and others have written down of it."""

    def __init__(self, folders, extras):
        self.folders, self.extras, self.taken, self.all = folders, extras, set(), None

    @staticmethod
    def normal(name):
        return re.sub(r"[-_.]+", "-", name).lower()

    def read_all(self):
        """Distributions, each with its name and the modules that its list names."""
        import importlib.metadata  # takes longer than all else here, and is not always needed
        self.all = []
        for distribution in importlib.metadata.distributions(path=self.folders):
            text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
            name = re.search(r"(?im)^Name: *(\S+)", text)
            modules = (distribution.read_text("top_level.txt") or "").split()
            self.all.append((self.normal(name[1]) if name else "", modules, distribution))

    def take_import(self, name, places):
        if self.all is None:
            self.read_all()
        found = [one for one in self.all if name in one[1] or not one[1] and self.normal(name) == one[0]]
        if not found:
            begin = re.compile(r"(?m)^%s(/|\.)" % re.escape(name))
            found = [one for one in self.all if not one[1] and begin.search(one[2].read_text("RECORD") or "")]
        for one in found:
            self.take(one, True)
        for place in [] if found else places:
            walk(place, "object")
        for plugin in PLUGINS.get(name, []):
            self.take_import(plugin, [os.path.join(folder, plugin) for folder in self.folders])

    def take(self, one, first):
        name, modules, distribution = one
        # nccl-join's own has all functions of NCCL, and the stand-ins.
        if id(distribution) in self.taken or name == "nccl-join":
            return
        self.taken.add(id(distribution))
        record = distribution.read_text("RECORD")
        if record is not None:
            for line in record.splitlines():
                path = line.rsplit(",", 2)[0].strip('"')
                if SHARED_OBJECT.search(path):
                    say("object", str(distribution.locate_file(path)))
        else:
            for module in modules:
                walk(str(distribution.locate_file(module)), "object")
        for requirement in distribution.requires or []:
            required = self.normal(re.match(r"[\w.-]*", requirement)[0])
            # NVIDIA's packages have nothing that is imported.
            if required.startswith("nvidia-") or "extra" in requirement and not (first and self.extras):
                continue
            for other in self.all:
                if other[0] == required:
                    self.take(other, False)
