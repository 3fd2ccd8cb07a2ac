"""Writes the row of interpose/places/python/python_opcodes.inc for the Python that runs this: what each opcode is for the flow
of control, specialised and instrumented ones included. tests/python/test_opcodes.c compares.
"""
import opcode
import sys

# Nothing that these do can raise in a program, or run other code.
QUIET = ('LOAD_FAST', 'LOAD_CONST', 'LOAD_SMALL_INT', 'LOAD_CLOSURE', 'LOAD_COMMON_CONSTANT', 'STORE_FAST', 'POP_TOP',
         'POP_ITER', 'RESUME', 'COPY', 'SWAP', 'PUSH_NULL', 'DUP_TOP', 'ROT_', 'CACHE', 'JUMP_', 'POP_JUMP',
         'PUSH_EXC_INFO', 'MAKE_', 'BUILD_TUPLE', 'KW_NAMES', 'NOT_TAKEN', 'SETUP_FINALLY', 'END_FOR', 'END_SEND',
         'IS_OP', 'GEN_START', 'CHECK_EXC_MATCH')

# As enum python_opcode in interpose/places/python/python_opcodes.h names them.
CLASSES = {'PRECALL': 'p', 'EXTENDED_ARG': 'e', 'SEND': 's', 'RETURN_VALUE': 'r', 'RETURN_CONST': 'r', 'RAISE_VARARGS': 'x',
           'RERAISE': 'x', 'SETUP_FINALLY': 'h', 'SETUP_WITH': 'H', 'SETUP_ASYNC_WITH': 'H', 'POP_BLOCK': 'k',
           'POP_EXCEPT': 'v', 'END_ASYNC_FOR': 'y', 'WITH_EXCEPT_START': 'w', 'INSTRUMENTED_LINE': 'l',
           'INSTRUMENTED_INSTRUCTION': 'i', 'JUMP_FORWARD': 'J', 'JUMP_BACKWARD': 'B', 'JUMP_BACKWARD_NO_INTERRUPT': 'B',
           'JUMP_ABSOLUTE': 'A', 'FOR_ITER': 'F', 'NOP': 'n', 'ENTER_EXECUTOR': '.', 'INTERPRETER_EXIT': '.', 'RESERVED': '.'}


def general_names():
    """By opcode: its name, or that of what it is a special case of."""
    names = {number: name for name, number in opcode.opmap.items()}
    special = {}
    if sys.version_info >= (3, 13):
        names.update({number: name for name, number in opcode._specialized_opmap.items()})
    elif sys.version_info >= (3, 11):
        import dis
        names.update({number: name for name, number in dis._all_opmap.items()})
    for name, cases in getattr(opcode, '_specializations', {}).items():
        special.update(dict.fromkeys(cases, name))
    return {number: special.get(name, name) for number, name in names.items() if number < 256}


def class_of(name):
    if name not in CLASSES and name.startswith('INSTRUMENTED_'):
        name = name[len('INSTRUMENTED_'):]
    if name in CLASSES:
        return CLASSES[name]
    if opcode.opmap[name] in opcode.hasjabs:
        return 'a'
    if opcode.opmap[name] in opcode.hasjrel:
        return 'b' if 'BACKWARD' in name else 'f'
    if name.startswith(('CALL', 'YIELD_FROM')) and 'INTRINSIC' not in name:
        return 'c'
    return 'q' if name.startswith(QUIET) else 'o'


def caches_of(name):
    """How many code units behind the instruction belong to it."""
    entries = getattr(opcode, '_inline_cache_entries', {})
    if name.startswith('INSTRUMENTED_') and name not in CLASSES:
        name = name[len('INSTRUMENTED_'):]
    return entries.get(name, 0) if isinstance(entries, dict) else entries[opcode.opmap[name]]


def main():
    names = general_names()
    cells = [class_of(names[n]) + '%x' % caches_of(names[n]) if n in names else '.0' for n in range(256)]
    print('[%d] =' % sys.version_info[1])
    for first in range(0, 256, 32):
        print('    "' + ''.join(cells[first:first + 32]) + ('",' if first == 224 else '"'))


main()
