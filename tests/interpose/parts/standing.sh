#!/bin/sh
# Builds the programs of test_places.c into the folder $1. Run in the root of the repository. CC: the compiler. B: the
# build folder (built).
set -eu
out=$1
parts=tests/interpose/parts
: "${NCCL_INCLUDE:=$(sed -n 's/^NCCL_INCLUDE = //p' .deps/paths.mk)}"
mkdir -p "$out"

flags="-g -pthread -I. -Wall -Wextra -Wno-unused-but-set-variable"
linked="-L$out -lplaced -Wl,-rpath,$out"
# These are several words.
# shellcheck disable=SC2046,SC2086
{
  ${CC:-gcc} -std=c17 -D_GNU_SOURCE $flags -O2 -fPIC -shared -fvisibility=hidden -ftls-model=initial-exec \
    -isystem "$NCCL_INCLUDE" -o "$out/libplaced.so" -Wl,-soname,libplaced.so -Wl,-z,now $parts/placed.c \
    $($parts/built interpose/places/places.c interpose/places/places_text.c interpose/places/native/native_frames.c interpose/places/native/native_sites.c \
    interpose/places/native/eh_frame*.c interpose/places/native/native_rounds.c interpose/places/native/native_counters.c interpose/places/native/native_words.c \
    interpose/places/flow/*.c interpose/places/native/code_modules.c interpose/places/native/native_tails.c \
    interpose/places/native/native_object.c interpose/places/native/native_x86_64.c interpose/places/native/native_aarch64.c core/place/place_rounds.c)
  for compiler in gcc clang; do
    command -v $compiler >/dev/null || continue
    for how in O0 O1 O2 O3 O2,-flto O2,-fomit-frame-pointer O2,-fno-omit-frame-pointer O2,-no-pie,-fno-pie \
      O2,-Wl,--build-id=none; do
      words=$(echo "$how" | sed 's/,-Wl,/ -Wl,/; t; s/,/ /g')
      $compiler -std=c17 -D_GNU_SOURCE $flags -$words -o "$out/standing-$compiler-$how" $parts/standing.c \
        $parts/standing_ways.c $linked
    done
    for how in O0 O2; do
      $(echo $compiler | sed "s,gcc,g,")++ -std=c++20 $flags -$how -o \
        "$out/standing-c++-$compiler-$how" $parts/standing.cc $linked 2>/dev/null ||
        test $compiler = clang # its coroutines may not fit the library
    done
  done
  gcc $flags -O2 -fPIC -shared -o "$out/libcall.so" -x c - <<'END'
unsigned call(unsigned (*function)(void));
unsigned call(unsigned (*function)(void)) { unsigned id = function(); __asm__ volatile(""); return id; }
END
  gcc $flags -O2 -fPIC -shared -o "$out/libpool.so" -x c - <<'END'
#include <pthread.h>
#include <stdbool.h>
static void *begin(void *function) { ((void (*)(void))function)(); __asm__ volatile(""); return 0; }
void run(void (*function)(void), bool in_thread);
void run(void (*function)(void), bool in_thread) {
  pthread_t thread;
  if (!in_thread) { begin(function); return; }
  pthread_create(&thread, 0, begin, function);
  pthread_join(thread, 0);
}
END
  cp "$out/libpool.so" "$out/libtorch_cpu.so"
}
