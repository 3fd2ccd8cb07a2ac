"""Run by gdb: writes a C header with the structures that NCCL's host side hands to its kernels, from the debug information of
one libnccl.so.2.

    gdb -nx -batch -ex 'python release="2.28.9"; header="layout.h"' -x tests/nccl/layout.py LIBNCCL

Also says by HAS_<structure>_<field> which fields there are. Status 3, and one line, where the release lacks what the
emulation reads.
"""
import gdb  # pylint: disable=import-error
import sys

NEEDED = ["ncclDevKernelArgs", "ncclDevWorkBatch", "ncclDevWorkColl", "ncclDevWorkP2p", "ncclDevChannel", "ncclRing", "ncclTree",
          "ncclDevChannelPeer", "ncclConnInfo", "ncclConnFifo"]
OPTIONAL = ["ncclDevWorkBcast", "ncclDevProfiler"]
# Fields of these are of no use here; they stay as bytes.
OPAQUE = ["ncclNetDeviceHandle_t", "ncclNetDeviceHandle_v11_t"]

lines, done, wanted = [], set(), set()


def find(name):
    try:
        return gdb.lookup_type("struct " + name)
    except gdb.error:
        return None


def is_opaque(kind):
    return kind.code == gdb.TYPE_CODE_STRUCT and (kind.name is None or kind.name not in wanted)


def alignment(kind):
    kind = kind.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_ARRAY:
        return alignment(kind.target())
    if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        return max([alignment(field.type) for field in kind.fields()] or [1])
    return kind.sizeof


def declare(kind, name, indent):
    """The declaration of one thing of that type, without its semicolon."""
    kind = kind.strip_typedefs().unqualified()
    if kind.code == gdb.TYPE_CODE_ARRAY:
        low, high = kind.range()
        return declare(kind.target(), f"{name}[{high - low + 1}]", indent)
    if kind.code == gdb.TYPE_CODE_PTR:
        target = kind.target().strip_typedefs().unqualified()
        if target.code == gdb.TYPE_CODE_PTR:
            return declare(target, "*" + name, indent)
        if target.code == gdb.TYPE_CODE_STRUCT and target.name in wanted:
            return f"struct {target.name} *{name}"
        if target.code == gdb.TYPE_CODE_INT and target.sizeof in (1, 2, 4, 8):
            return declare(target, "*" + name, indent)
        return f"void *{name}"
    if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        if kind.name in wanted:
            return f"struct {kind.name} {name}"
        if kind.name is not None:
            unit = alignment(kind)
            return f"uint{8 * unit}_t {name}[{kind.sizeof // unit}]"
        word = "struct" if kind.code == gdb.TYPE_CODE_STRUCT else "union"
        return f"{word} {{\n{body(kind, indent + '  ', None)}{indent}}} {name}"
    if kind.code == gdb.TYPE_CODE_INT and "unsigned" not in str(kind) and "char" not in str(kind):
        return f"int{8 * kind.sizeof}_t {name}"
    if str(kind) == "char":
        return f"char {name}"
    return f"uint{8 * kind.sizeof}_t {name}"  # flags and enumerations too


def body(kind, indent, owner):
    text, end = "", 0
    for field in kind.fields():
        name = field.name or ""
        if field.bitsize:
            text += f"{indent}{declare(field.type, name, indent)} : {field.bitsize};\n"
            end = max(end, (field.bitpos + field.bitsize + 7) // 8)
        else:
            text += f"{indent}{declare(field.type, name, indent)};\n"
            end = max(end, field.bitpos // 8 + field.type.sizeof)
        if owner and name:
            lines.append(f"#define HAS_{owner}_{name} 1")
        elif owner:  # members of an unnamed part
            for inner in field.type.strip_typedefs().fields():
                lines.append(f"#define HAS_{owner}_{inner.name} 1")
    unit = alignment(kind)
    natural = (end + unit - 1) // unit * unit
    if kind.code == gdb.TYPE_CODE_STRUCT and natural < kind.sizeof:
        text += f"{indent}char padding[{kind.sizeof - end}];\n"
    return text


def define(name, kind):
    """After all that it contains."""
    if name in done:
        return
    done.add(name)
    for field in kind.fields():
        inner = field.type.strip_typedefs()
        while inner.code == gdb.TYPE_CODE_ARRAY:
            inner = inner.target().strip_typedefs()
        if inner.code == gdb.TYPE_CODE_STRUCT and inner.name in wanted:
            define(inner.name, inner)
    text = body(kind, "  ", name)
    lines.append(f"struct {name} {{\n{text}}};")
    lines.append(f'_Static_assert(sizeof(struct {name}) == {kind.sizeof}, "size of {name}");')
    for field in kind.fields():
        if field.name and not field.bitsize:
            lines.append(f'_Static_assert(offsetof(struct {name}, {field.name}) == {field.bitpos // 8}, "{name}.{field.name}");')


def refuse(why):
    print(f"NCCL {release} cannot be emulated: {why}", file=sys.stderr)
    gdb.execute("quit 3")


def main():
    missing = [name for name in NEEDED if find(name) is None]
    if missing:
        why = "work is described by struct ncclWork, as before 2.22" if find("ncclWork") else "there is no debug information"
        refuse(f"it has no struct {missing[0]}: {why}")
    kinds = {name: find(name) for name in NEEDED + OPTIONAL if find(name)}
    communicator = kinds["ncclDevKernelArgs"]["comm"].type.target().strip_typedefs()
    kinds[communicator.name] = communicator
    wanted.update(kinds)
    types = gdb.lookup_type("enum ncclDevWorkType")
    constants = [f"#define LAYOUT_{field.name} {field.enumval}" for field in types.fields()]
    types = gdb.lookup_type("enum ncclDevWorkStorageType")
    constants += [f"#define LAYOUT_{field.name} {field.enumval}" for field in types.fields()]
    for name, kind in kinds.items():
        define(name, kind)
    with open(header, "w", encoding="utf-8") as file:
        print(f"/* Generated by tests/nccl/layout.py from the debug information of NCCL {release}. */", file=file)
        print("#pragma once\n#include <stddef.h>\n#include <stdint.h>\n", file=file)
        print("\n".join(constants + lines), file=file)
        print(f"typedef struct {communicator.name} layout_communicator;", file=file)
        for field in communicator.fields():
            print(f"#define HAS_communicator_{field.name} 1", file=file)


main()
