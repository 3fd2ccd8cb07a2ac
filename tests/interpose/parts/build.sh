#!/bin/sh
# Builds the programs of tests/interpose into the folder $1; ../workshop.h says what each is. Run in the root of the
# repository. CC: the compiler. B: the build folder (built). NCCL_INCLUDE, CUDA13_INCLUDE: the headers, if not those of
# .deps/paths.mk.
set -eu
out=$1
parts=tests/interpose/parts
: "${NCCL_INCLUDE:=$(sed -n 's/^NCCL_INCLUDE = //p' .deps/paths.mk)}"
: "${CUDA13_INCLUDE:=$(sed -n 's/^CUDA13_INCLUDE = //p' .deps/paths.mk)}"

compile() {
  ${CC:-gcc} -std=c17 -D_GNU_SOURCE -Wall -Wextra -O2 -g -fPIC -pthread -I. \
    -isystem "$NCCL_INCLUDE" -isystem "$CUDA13_INCLUDE" "$@"
}
library() { compile -shared -fvisibility=hidden -ftls-model=initial-exec "$@"; }
fake() { library $parts/fake_nccl.c -Wno-unused-parameter -Wl,-soname,libnccl.so.2 "$@"; }

# What came after 2.18.
newer='AlltoAll Gather Scatter GroupSimulateEnd CommInitRankScalable CommShrink CommGrow CommRevoke CommRegister CommDeregister
  CommWindowRegister CommSuspend CommResume DevCommCreate PutSignal Signal WaitSignal
  AllReduceConfig BroadcastConfig ReduceConfig AllGatherConfig ReduceScatterConfig AlltoAllConfig GatherConfig
  ScatterConfig'

# What keeps vector arguments whole can be seen where there are vectors.
avx=''
if grep -qw avx /proc/cpuinfo; then avx=-mavx; fi

rm -rf "$out"
mkdir -p "$out/fake" "$out/old" "$out/other" "$out/versioned" "$out/telling" "$out/driver"

compile -E -P -x c -o "$out/exports.map" interpose/entry/exports.map.in
# shellcheck disable=SC2046 # several words
library -o "$out/double.so" -Wl,--version-script="$out/exports.map" -Wl,-z,now,-z,nodelete $($parts/built $(cat $parts/double.sources)) &

{
  echo '{ global: nccl*; pnccl*; local: *;'
  for name in $newer; do echo "nccl$name; pnccl$name;"; done
  echo '};'
} >"$out/old.map"
fake -o "$out/old/libnccl.so.2" -DVERSION=21805 -Wl,--version-script="$out/old.map" &
library -o "$out/other/libother.so" -DPART='"other"' -DVERSION=22304 -Wno-unused-parameter \
  $parts/fake_nccl.c -Wl,-soname,libother.so &
echo 'ANY_1.0 { global: nccl*; pnccl*; local: *; };' >"$out/versioned.map"
fake -o "$out/versioned/libnccl.so.2" -Wl,--version-script="$out/versioned.map" &
library -o "$out/telling/libnccl.so.2" $parts/telling_nccl.c -Wl,-soname,libnccl.so.2 &
library -o "$out/front.so" -w $parts/front.c &
library -o "$out/profiler.so" $parts/profiler.c &
fake -o "$out/fake/libnccl.so.2" &
library -o "$out/driver/libcuda.so.1" $parts/fake_cuda.c -Wl,-soname,libcuda.so.1 &
for release in 12 13; do
  library -o "$out/fake/libcudart.so.$release" "-DRELEASE=\"$release\"" $parts/fake_cudart.c \
    -Wl,-soname,libcudart.so.$release &
done
wait

nccl="-L$out/fake -l:libnccl.so.2 -Wl,--enable-new-dtags,-rpath,$out/fake"
other="-L$out/other -l:libother.so -Wl,-rpath,$out/other"
telling="-L$out/telling -l:libnccl.so.2 -Wl,--enable-new-dtags,-rpath,$out/telling"
# These are several words.
# shellcheck disable=SC2086
{
  compile -o "$out/linked" $parts/host.c $parts/client.c $nccl -Wl,-z,lazy &
  compile -o "$out/now" $parts/host.c $parts/client.c $nccl -Wl,-z,now &
  compile -o "$out/host" $parts/host.c -Wl,-z,lazy &
  library -o "$out/plugin.so" $parts/client.c $nccl -Wl,-z,lazy &
  library -o "$out/entangled.so" $parts/client.c -Wl,--no-as-needed "$out/double.so" $other -Wl,-z,lazy &
  library -o "$out/orphan.so" $parts/client.c -Wl,-z,lazy &
  library -o "$out/other_plugin.so" $parts/client.c $other -Wl,-z,lazy &
  for release in 12 13; do
    library -o "$out/capturer$release.so" $parts/capturer.c "-L$out/fake" -l:libcudart.so.$release \
      "-Wl,--enable-new-dtags,-rpath,$out/fake" -Wl,-z,lazy &
  done
  library -o "$out/lonely_capturer.so" $parts/capturer.c -Wl,-z,lazy &
  compile -o "$out/capturing" $parts/host.c $parts/capturer.c "-L$out/fake" -l:libcudart.so.12 \
    "-Wl,--enable-new-dtags,-rpath,$out/fake" &
  compile -o "$out/endings" $parts/endings.c $nccl -Wl,-z,lazy &
  library -o "$out/maker.so" $parts/maker.c $nccl -Wl,-z,lazy &
  library -o "$out/other_maker.so" $parts/maker.c $other -Wl,-z,lazy &
  compile -o "$out/weak" $parts/weak.c -Wl,--no-as-needed $nccl -Wl,-z,lazy &
  compile -o "$out/weak_now" $parts/weak.c -Wl,--no-as-needed $nccl -Wl,-z,now -Wl,-z,relro &
  compile -o "$out/weak_alone" $parts/weak.c &
  compile -o "$out/seeker" -DLOOKED_UP $parts/seeker.c $parts/client.c &
  compile -o "$out/configs" $parts/configs.c $telling -Wl,-z,lazy &
  compile -o "$out/asker" $parts/asker.c $nccl -Wl,-z,lazy &
  printf 'STEPS_1 { global: *; }; STEPS_2 { } STEPS_1;' >"$out/steps.map"
  library -w $avx -o "$out/libsteps.so" $parts/steps.c -Wl,-soname,libsteps.so "-Wl,--version-script=$out/steps.map"
  steps="-w $avx -L$out -lsteps -Wl,-rpath,$out"
  compile -o "$out/stepper" $parts/stepper.c $steps $nccl -Wl,-z,lazy &
  compile -o "$out/stepper_now" $parts/stepper.c $steps $nccl -Wl,-z,now -Wl,-z,relro &
  compile -o "$out/stepper_fixed" -no-pie -fno-pie -DOLD $parts/stepper.c $steps $nccl -Wl,-z,lazy &
  compile -o "$out/stepper_direct" -fno-plt $parts/stepper.c $steps $nccl &
  library -o "$out/stepping.so" -DPART $parts/stepper.c $steps -Wl,-z,lazy &
  library -o "$out/stepping_now.so" -DPART $parts/stepper.c $steps -Wl,-z,now -Wl,-z,relro &
  compile -o "$out/stepless" $parts/stepper.c -DSTEPLESS -w $nccl &
  wait
  compile -o "$out/crowd" $parts/crowd.c $nccl -Wl,-z,lazy &
  compile -o "$out/arguments" $parts/arguments.c -rdynamic &
  compile -o "$out/arguments_fixed" $parts/arguments.c -rdynamic -no-pie -fno-pie &
  wait
  mkdir "$out/only"
  # shellcheck disable=SC2016 # for the dynamic linker
  library -o "$out/only/outer.so" $parts/host.c -Wl,--no-as-needed "$out/plugin.so" -Wl,-rpath,'$ORIGIN/..' &
  library -o "$out/only/libonly.so" -DONLY $parts/inner.c &
  library -o "$out/libbehind.so" -DBEHIND $parts/inner.c -Wl,-soname,libbehind.so &
  wait
}

for name in double.so old/libnccl.so.2 versioned/libnccl.so.2 telling/libnccl.so.2 other/libother.so front.so profiler.so fake/libnccl.so.2 driver/libcuda.so.1 linked now host plugin.so \
  other_plugin.so orphan.so entangled.so maker.so other_maker.so weak weak_now weak_alone seeker endings configs asker crowd arguments arguments_fixed only/outer.so \
  only/libonly.so libbehind.so libsteps.so stepper stepper_now stepper_fixed stepper_direct stepping.so stepping_now.so stepless \
  capturer12.so capturer13.so lonely_capturer.so capturing; do
  test -e "$out/$name"
done
