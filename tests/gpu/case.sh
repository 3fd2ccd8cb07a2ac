#!/bin/sh
# shellcheck disable=SC2034,SC2154 # its variables are of those who read it, and theirs are its
# What tests/gpu/program and tests/gpu/script, each of which runs one case, share; read by them with `.`, after `part` and `name`
# and `ranks` are set. From tests/gpu/run they have: BUILD, RESULTS, LIMIT, GPUS.

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

launcher=$BUILD/tools/nccl-join
with='-' without='-'

# sharing HOW: how ranks share GPUs, if they do.
sharing() {
  if [ "$ranks" -gt "$GPUS" ]; then
    echo "$1"
  else
    echo apart
  fi
}

# verdict WORD [WHY]: a line for whoever watches, and one for tests/gpu/report. Ends the case.
verdict() {
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$part" "$name" "$ranks" "$1" "$with" "$without" "${2:-}" \
    >"$RESULTS/cases/$part-$$.tsv"
  printf 'check-gpu: %-8s %s ranks: %s%s\n' "$1" "$ranks" "$name" "${2:+ ($2)}"
  if [ "$1" = FAILED ]; then
    for log in "$temporary"/*.log; do
      if [ -s "$log" ]; then
        printf '%s\n' "--- $(basename "$log")"
        tail -n 25 "$log"
      fi
    done
  fi
  exit 0
}

# seconds COMMAND...: its status; how long it took in $took.
seconds() {
  start=$(date +%s)
  status=0
  "$@" || status=$?
  took="$(($(date +%s) - start)) s"
  return "$status"
}
