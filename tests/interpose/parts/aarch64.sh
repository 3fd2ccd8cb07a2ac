#!/bin/sh
# Builds the double, an NCCL and some programs of tests/interpose for aarch64, and makes them run in qemu: a folder like that of
# build.sh, as far as tests/interpose/test_aarch64.c uses it, and in it `run`, which runs a program behind the double. Run in
# the root of the repository.
set -eu
out=$1
parts=tests/interpose/parts
include() { sed -n "s/^$1 = //p" .deps/paths.mk; }
compile() {
  aarch64-linux-gnu-gcc -std=c17 -D_GNU_SOURCE -w -O1 -fPIC -pthread -I. -isystem "$(include NCCL_INCLUDE)" \
    -isystem "$(include CUDA13_INCLUDE)" "$@"
}
library() { compile -shared -fvisibility=hidden -ftls-model=initial-exec "$@"; }

mkdir -p "$out/fake" "$out/old" "$out/only"
compile -E -P -x c -o "$out/exports.map" interpose/entry/exports.map.in
# shellcheck disable=SC2046 # several words
library -o "$out/double.so" -Wl,--version-script="$out/exports.map" -Wl,-z,now,-z,nodelete $(cat $parts/double.sources) &
library -o "$out/fake/libnccl.so.2" $parts/fake_nccl.c -Wl,-soname,libnccl.so.2 &
library -o "$out/old/libnccl.so.2" -DVERSION=21805 $parts/fake_nccl.c -Wl,-soname,libnccl.so.2 \
  -Wl,--version-script=/dev/stdin <<'MAP' &
{ global: nccl*; pnccl*; local: ncclCommShrink; pncclCommShrink; };
MAP
compile -o "$out/seeker" -DLOOKED_UP $parts/seeker.c $parts/client.c &
compile -o "$out/host" $parts/host.c &
library -o "$out/only/libonly.so" -DONLY $parts/inner.c &
library -o "$out/libbehind.so" -DBEHIND $parts/inner.c -Wl,-soname,libbehind.so &
printf 'STEPS_1 { global: *; }; STEPS_2 { } STEPS_1;' >"$out/steps.map"
library -o "$out/libsteps.so" $parts/steps.c -Wl,-soname,libsteps.so "-Wl,--version-script=$out/steps.map" &
wait
compile -o "$out/stepper" $parts/stepper.c -L"$out" -lsteps -L"$out/fake" -l:libnccl.so.2 -Wl,-z,lazy \
  -Wl,-rpath,"$out" -Wl,-rpath,"$out/fake" &
library -o "$out/stepping.so" -DPART $parts/stepper.c -L"$out" -lsteps -Wl,-z,now -Wl,-rpath,"$out" &
library -o "$out/plugin.so" $parts/client.c -L"$out/fake" -l:libnccl.so.2 -Wl,-rpath,"$out/fake" &
for level in O0 O2; do
  library -$level -o "$out/libinner_$level.so" $parts/inner.c -Wl,--no-as-needed "$out/libbehind.so" \
    -Wl,--enable-new-dtags,-rpath,"$out/only" -Wl,-rpath,"$out"
  compile -$level -rdynamic -DPROGRAM -o "$out/inner_$level" $parts/inner.c -L"$out" -linner_$level "$out/libbehind.so" \
    -Wl,-rpath,"$out"
done
wait
cat >"$out/run" <<'RUN'
#!/bin/sh
exec qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_PRELOAD="$(dirname "$0")/double.so" "$@"
RUN
chmod +x "$out/run"
