#!/bin/sh
# chaos/smoke.sh HEADROOM-CHAOS [SEEDS [FIRST]]: seeds that have found something once, then so many (20) from FIRST on
# (600), or, with `commit` for it, from a number that follows from the commit: each commit is tried under others.
set -eu
chaos=$1
seeds=${2:-20}
first=${3:-600}

sim() {
    "$chaos" sim --lasts 60s --rps 100 "$@"
}

cd "$(dirname -- "$0")/.."
if [ "$first" = commit ]; then
    commit=$(git -c safe.directory="$PWD" rev-parse HEAD 2>/dev/null || echo 0)
    first=$(printf '%d' "0x$(printf '%.12s' "$commit")")
fi

# A node that decided a request over several counters alone, before it knew any other, fell over.
sim --seed 1 --regions 1 --nodes 3
# Two nodes of a region are gone at once, and a third comes and goes.
sim --seed 8 --regions 2 --nodes 3

tried=0
while [ "$tried" -lt "$seeds" ]; do
    sim --seed $((first + tried))
    tried=$((tried + 1))
done
printf '%d seeds from %d on\n' "$tried" "$first"
