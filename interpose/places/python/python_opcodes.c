/* The table of python_opcodes.h. */
#include "interpose/places/python/python_opcodes.h"

const char *const python_opcode_rows[PYTHON_MINOR_LAST + 1] = {
#include "interpose/places/python/python_opcodes.inc"
};
