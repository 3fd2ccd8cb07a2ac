#!/bin/sh
# Builds places.c (with twins.c) and places.cc as $1/NAME-LEVEL.so with every compiler there is, in every way. Prints
# the names. What a compiler cannot do here is left out.
set -eu
parts=$(dirname "$0")
folder=$1
mkdir -p "$folder"
cat "$parts/places.c" "$parts/twins.c" >"$folder/places.c"
cp "$parts/places.cc" "$folder"

build() { # NAME COMPILER SOURCE FLAGS...
  name=$1 compiler=$2 source=$3
  shift 3
  [ "$source" = places.c ] || set -- -std=c++20 "$@"
  "$compiler" -shared -fPIC -I"$parts" "$@" -o "$folder/$name.so" "$folder/$source" 2>"$folder/$name.log" || return 0
  echo "$name"
}

profiled() { # NAME COMPILER SOURCE: as it was seen to run, which is as trainer.c runs it
  command -v "$2" >/dev/null || return 0
  object=$folder/$1.o
  [ "$3" = places.c ] && standard=gnu17 || standard=c++20
  "$2" "-std=$standard" -O2 -fPIC -fprofile-generate -I"$parts" -c -o "$object" "$folder/$3" &&
    gcc -O1 -o "$folder/$1-trainer" "$parts/trainer.c" "$object" -fprofile-generate -lgcov -lstdc++ &&
    "$folder/$1-trainer" && "$2" "-std=$standard" -O2 -fPIC -fprofile-use -I"$parts" -c -o "$object" "$folder/$3" &&
    "$2" -shared -o "$folder/$1.so" "$object" && echo "$1"
}

for language in c cc; do
  for compiler in gcc clang; do
    [ $language = c ] || compiler=$(echo $compiler | sed 's/gcc/g++/; s/clang/clang++/')
    command -v "$compiler" >/dev/null || continue
    for level in -O0 -O1 -O2 -O3 -Os; do
      build "$compiler$level" "$compiler" "places.$language" $level
    done
    build "$compiler-cet" "$compiler" "places.$language" -O2 -fcf-protection
    build "$compiler-native" "$compiler" "places.$language" -O3 -march=native -funroll-loops
  done
done
build gcc-lto gcc places.c -O2 -flto
build clang-lto clang places.c -O2 -flto -fuse-ld=lld
profiled gcc-profile gcc places.c 2>"$folder/profile.log" || :
profiled g++-profile g++ places.cc 2>>"$folder/profile.log" || :
