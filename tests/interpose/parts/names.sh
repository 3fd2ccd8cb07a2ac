#!/bin/sh
# Holds the names that an NCCL exports against those that nccl-join knows: interpose/nccl/api.h, which it acts on or calls, and
# passed.txt. Run in the root of the repository.
#
#   names.sh LIBRARY INCLUDE
#
# One line a name, sorted: "wrapped NAME", "asked NAME" (called by nccl-join, not exported), "passed NAME", "lacking NAME"
# (in api.h, not in the library), "unknown NAME", or "bypassing NAME": unknown, and the headers in INCLUDE give it a
# communicator and a stream, so that a call of it would be a collective that nccl-join does not see. A pncclX stands for
# its ncclX.
set -eu
library=$1 include=$2

known=$({
  # In the order of the table; names behind it, such as the macros', begin otherwise.
  printf '#include "interpose/nccl/api.h"\n#define LINE(since, name, parameters, arguments, handling) handling name;\nNCCL_API(LINE)\n' |
    ${CC:-gcc} -E -P -x c -I. - | tr ';' '\n' | sed -n 's/^ *\([A-Z][A-Z]*\) \([A-Za-z][A-Za-z0-9]*\) *$/\1 nccl\2/p' |
    sed 's/^CALLED /asked /; s/^ASKED /asked /; s/^[A-Z][A-Z]* /wrapped /'
  sed -n 's/^\(nccl[A-Za-z0-9]*\) .*/passed \1/p' tests/interpose/parts/passed.txt
} | sort -k2)
exported=$(nm -D --defined-only "$library" | sed -n 's/.* [TW] p\{0,1\}\(nccl[A-Za-z0-9_]*\)$/\1/p' | sort -u)

# Each declaration on a line of its own, behind whatever comment precedes it.
declarations=$(find "$include" -name 'nccl*.h' -o -path '*/nccl_device/*.h' | sort | xargs cat | tr '\n' ' ' | tr ';' '\n')

# What comes between a name's parenthesis and the end of the declaration has both types in it.
issues() {
  printf '%s\n' "$declarations" | sed -n "s/.*[^A-Za-z0-9_]$1 *(//p" | grep ncclComm_t | grep -q cudaStream_t
}

{
  printf '%s\n' "$known" | while read -r how name; do
    if printf '%s\n' "$exported" | grep -qx "$name"; then
      echo "$how $name"
    elif [ "$how" != passed ]; then
      echo "lacking $name"
    fi
  done
  for name in $exported; do
    if printf '%s\n' "$known" | grep -q " $name\$"; then
      continue
    elif issues "$name"; then
      echo "bypassing $name"
    else
      echo "unknown $name"
    fi
  done
} | sort
