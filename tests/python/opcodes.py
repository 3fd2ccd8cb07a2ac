"""Writes the row of interpose/places/python/python_opcodes.inc for the Python that runs this: what each opcode is for the flow
of control, specialised and instrumented ones included, and what it does to values. tests/python/test_python.c compares.
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
           'JUMP_ABSOLUTE': 'A', 'FOR_ITER': 'F', 'YIELD_VALUE': 'Y', 'YIELD_FROM': 'Y', 'NOP': 'n', 'ENTER_EXECUTOR': '.', 'INTERPRETER_EXIT': '.', 'RESERVED': '.'}

# As enum python_effect in interpose/places/python/python_opcodes.h names them.
EFFECTS = {'LOAD_FAST': 'L', 'LOAD_FAST_CHECK': 'L', 'LOAD_FAST_BORROW': 'L', 'LOAD_FAST_LOAD_FAST': 'M',
           'LOAD_FAST_BORROW_LOAD_FAST_BORROW': 'M', 'STORE_FAST': 'S', 'STORE_FAST_STORE_FAST': 'T',
           'STORE_FAST_LOAD_FAST': 'U', 'DELETE_FAST': 'D', 'LOAD_FAST_AND_CLEAR': 'l', 'LOAD_CONST': 'C', 'LOAD_SMALL_INT': 'I',
           'BINARY_OP': 'B', 'BINARY_ADD': '+', 'INPLACE_ADD': '+', 'BINARY_SUBTRACT': '-', 'INPLACE_SUBTRACT': '-',
           'IS_OP': 'i', 'CONTAINS_OP': 'b', 'COMPARE_OP': 'Q', 'UNARY_NOT': 'N', 'TO_BOOL': 't', 'UNPACK_SEQUENCE': 'v',
           'LOAD_ATTR': 'a', 'STORE_ATTR': 'A', 'LOAD_METHOD': 'm', 'LOAD_GLOBAL': 'g', 'LOAD_NAME': 'n', 'STORE_NAME': 's',
           'STORE_GLOBAL': 's', 'LOAD_DEREF': 'p', 'LOAD_CLASSDEREF': 'p', 'LOAD_CLOSURE': 'p', 'PUSH_NULL': 'p',
           'POP_TOP': 'x', 'STORE_DEREF': 'x', 'DUP_TOP': 'd', 'COPY': 'y', 'SWAP': 'w', 'ROT_TWO': 'r', 'ROT_THREE': 'R',
           'CALL_FUNCTION': 'f', 'CALL_METHOD': 'c', 'CALL': 'c'}
NO_EFFECT = ('NOP', 'RESUME', 'CACHE', 'EXTENDED_ARG', 'PRECALL', 'KW_NAMES', 'JUMP_FORWARD', 'JUMP_BACKWARD',
             'JUMP_BACKWARD_NO_INTERRUPT', 'JUMP_ABSOLUTE', 'NOT_TAKEN', 'GEN_START', 'POP_BLOCK')
JUMPS = {'TRUE': 'J', 'FALSE': 'K', 'NONE': 'V', 'NOT_NONE': 'W'}


def effect_of(name):
    """'*': anything, but to no variable."""
    if name.startswith('INSTRUMENTED_') and name not in CLASSES:
        name = name[len('INSTRUMENTED_'):]
    if name in NO_EFFECT:
        return '='
    if name.startswith('POP_JUMP_'):
        return JUMPS[name.split('_IF_')[1]]
    if name not in EFFECTS and name.startswith(('BINARY_', 'INPLACE_')) and 'SLICE' not in name:
        return 'b'
    if name in ('UNARY_NEGATIVE', 'UNARY_POSITIVE', 'UNARY_INVERT'):
        return 'u'
    return EFFECTS.get(name, '*')


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
    if name.startswith('CALL') and 'INTRINSIC' not in name:
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
    cells = [class_of(names[n]) + '%x' % caches_of(names[n]) + effect_of(names[n]) if n in names else '.0*' for n in range(256)]
    print('[%d] =' % sys.version_info[1])
    for first in range(0, 256, 32):
        print('    "' + ''.join(cells[first:first + 32]) + ('",' if first == 224 else '"'))


main()
