#!/bin/sh
# tests/fuzz/run.sh [SECONDS [NAME...]]: runs each fuzz target of the preset `fuzz`, or those named (fuzz_NAME), for so
# long (60 by default), as many at once as there are processors. Prints seed and executions; an input that fails is
# left in build/fuzz/findings. HEADROOM_FUZZ_SEED repeats a run.
set -eu
cd "$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)"

# run_target PROGRAM SECONDS SEED: on a copy of the seeds, so that what libFuzzer adds stays out of the tree.
run_target() {
    name=$(basename "$1")
    corpus=$(mktemp -d)
    trap 'rm -rf "$corpus"' EXIT
    cp "tests/fuzz/corpus/${name#fuzz_}"/* "$corpus"
    if "$1" -max_total_time="$2" -seed="$3" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/findings/$name-" "$corpus" >"build/fuzz/$name.log" 2>&1; then
        executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$name.log")
        echo "$name: seed $3, $executions executions in $2 s, no finding"
    else
        tail -n 60 "build/fuzz/$name.log"
        echo "$name: seed $3, FAILED"
        return 1
    fi
}

if [ "${1-}" = --target ]; then
    shift
    run_target "$@"
    exit
fi

seconds=${1:-60}
[ $# -eq 0 ] || shift
seed=${HEADROOM_FUZZ_SEED:-$(($(date +%s) % 1000000000))}
mkdir -p build/fuzz/findings
names=$*
set --
for name in ${names:-'*'}; do
    set -- "$@" build/fuzz/tests/fuzz_$name
done
if [ ! -x "$1" ]; then
    echo 'build first: cmake --preset fuzz && cmake --build --preset fuzz --target fuzzers' >&2
    exit 2
fi
printf '%s\n' "$@" | xargs -P "$(nproc)" -I '{}' sh tests/fuzz/run.sh --target '{}' "$seconds" "$seed"
