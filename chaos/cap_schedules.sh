#!/bin/sh
# cap_schedules.sh CAP_SIM COUNT [FIRST-SEED [JOBS]]: so many random fault schedules of one global cap over 2 to 8
# regions (docs/CONSISTENCY.md), in JOBS processes at a low priority. Prints those that break an invariant; a schedule
# is run again by `CAP_SIM seed rate|quota SEED`. Exit status: 0 none did.
set -eu
[ $# -ge 2 ] || {
    sed -n '2,4s/^# //p' "$0" >&2
    exit 2
}
sim=$1
count=$2
first=${3:-1}
jobs=${4:-1}
each=$(((count + jobs - 1) / jobs))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

job=0
pids=
while [ $job -lt "$jobs" ] && [ $((job * each)) -lt "$count" ]; do
    left=$((count - job * each))
    nice "$sim" chaos $((left < each ? left : each)) $((first + job * each)) >"$folder/$job" 2>&1 &
    pids="$pids $!"
    job=$((job + 1))
done
trap 'kill $pids 2>/dev/null; exit 130' INT TERM
status=0
for pid in $pids; do
    wait "$pid" || status=1
done
cat "$folder"/*
[ $status -eq 0 ] && echo "none of $count schedules broke an invariant"
exit $status
