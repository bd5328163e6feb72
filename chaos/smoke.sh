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
# A call comes to its owner seconds after its node has given up on it.
sim --seed 71885003992695
# A request waits for the store while its partition moves away.
sim --seed 104372000260136
sim --seed 104372000260416
# A narrow link is wide again, and what has queued up on it must not take as long as before.
sim --seed 139556372348932
# A look is decided just before a charge that is told of first. An answer that was forgotten is given anew, twice.
sim --seed 5008 --regions 3 --nodes 2 --rps 50 --lasts 600s
sim --seed 5008 --regions 1 --nodes 3 --lasts 600s
# What a crash has cost a bucket that is never untouched stays.
sim --seed 5013 --regions 3 --nodes 2 --rps 50 --lasts 600s
# A counter that is in memory alone was said to be untouched, once.
sim --seed 174740744438037
# Caps over all regions.
sim --seed 1 --regions 3 --nodes 2 --caps
sim --seed 2 --regions 2 --nodes 2 --caps
# The node that goes on for its region hears nobody; the other, without its lease, went on lending to the other region.
schedule=$(mktemp)
trap 'rm -f "$schedule"' EXIT
echo "11586 27571 swizzle eu-1" >"$schedule"
sim --seed 192332930482321 --regions 2 --nodes 2 --keys 10 --flush 1000ms --caps --rps 200 --schedule "$schedule"

tried=0
while [ "$tried" -lt "$seeds" ]; do
    sim --seed $((first + tried))
    tried=$((tried + 1))
done
printf '%d seeds from %d on\n' "$tried" "$first"
