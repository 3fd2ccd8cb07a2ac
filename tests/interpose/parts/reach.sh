#!/bin/sh
# Builds reach.c for each way to come to NCCL, with the compiler's options after the folder it goes into. Run in the root of
# the repository, with $B, $N and $L as in ../workshop.h.
#
#   reach.sh FOLDER OPTION...
set -eu
out=$1
shift
source=tests/interpose/parts/reach.c
: "${NCCL_INCLUDE:=$(sed -n 's/^NCCL_INCLUDE = //p' .deps/paths.mk)}"
: "${CUDA13_INCLUDE:=$(sed -n 's/^CUDA13_INCLUDE = //p' .deps/paths.mk)}"
compile() {
  ${CC:-gcc} -w -D_GNU_SOURCE -fPIC -I. -isystem "$NCCL_INCLUDE" -isystem "$CUDA13_INCLUDE" "$@"
}

mkdir -p "$out"
# Of another file with the same name at run time.
nccl="-L$B/loopback -l:libnccl.so.2 -Wl,-rpath-link,$B/loopback"
# NCCL inside: exported by default, and with names that only its own library can see. One binds to itself, whatever is
# exported.
inside="$B/tools/loopback/nccl/*.o $B/loopback/libcuda.so.1 -lm -pthread -Wl,-rpath,$B/loopback"
echo '{ global: reach; local: *; };' >"$out/hidden.map"
# shellcheck disable=SC2086 # several words
{
  compile "$@" -o "$out/linked" $source $nccl &
  compile "$@" -o "$out/looking" -DLOOKED_UP $source &
  compile "$@" -o "$out/host" -DHOST $source &
  compile "$@" -shared -o "$out/plugin.so" -DPLUGIN $source $nccl &
  wait
  compile "$@" -shared -o "$out/exported.so" -DPLUGIN $source $inside &
  compile "$@" -shared -o "$out/hidden.so" -DPLUGIN $source $inside -Wl,--version-script="$out/hidden.map" &
  compile "$@" -shared -o "$out/symbolic.so" -DPLUGIN $source $inside -Wl,-Bsymbolic &
  wait
}
for name in linked looking host plugin.so exported.so hidden.so symbolic.so; do
  test -e "$out/$name"
done
