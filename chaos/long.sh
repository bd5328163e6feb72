#!/bin/sh
# chaos/long.sh HEADROOM-CHAOS HOURS [FIRST]: so many simulated hours at least, over clusters of every kind, seed after
# seed from FIRST (1000) on. Prints each seed that fails, with the command that repeats it, and at the end what was run.
# To stop it early, interrupt it: the sum is printed all the same.
set -eu
chaos=$1
wanted_s=$((${2:?how many hours} * 3600))
seed=${3:-1000}
done_s=0 runs=0 failed=0

tell() {
    printf '%d runs, %d.%01d simulated hours, %d failed; the next seed is %d\n' "$runs" $((done_s / 3600)) \
        $((done_s % 3600 / 360)) "$failed" "$seed"
}
trap 'tell; exit 1' INT TERM

sim() { # SECONDS OPTION...
    seconds=$1
    shift
    out=$("$chaos" sim --seed "$seed" --lasts "${seconds}s" --no-shrink "$@" 2>/dev/null) || {
        failed=$((failed + 1))
        printf 'failed: sim --seed %s --lasts %ss %s\n' "$seed" "$seconds" "$*"
        printf '%s\n' "$out" | grep VIOLATED || true
    }
    runs=$((runs + 1)) done_s=$((done_s + seconds))
}

while [ "$done_s" -lt "$wanted_s" ]; do
    sim 3600 --nodes 1 --rps 100
    sim 600 --regions 1 --nodes 3 --rps 100
    sim 600 --regions 3 --nodes 2 --rps 50
    sim 600 --regions 3 --nodes 2 --rps 50 --caps
    seed=$((seed + 1))
done
tell
[ "$failed" -eq 0 ]
