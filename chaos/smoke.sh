#!/bin/sh
# chaos/smoke.sh HEADROOM-CHAOS [SEEDS [FIRST]]: seeds that have found something once, then so many (20) from FIRST on
# (600), or, with `commit` for it, from a number that follows from the commit: each commit is tried under others. Where
# no commit is known, as in an export, those are from 600 on, too. They are so many at most, for they end when they have
# taken a minute. Over all of them each kind of fault must have struck.
set -eu
chaos=$1
seeds=${2:-20}
first=${3:-600}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

sim() {
    status=0
    "$chaos" sim --lasts 60s --rps 100 "$@" >"$folder/told" || status=$?
    cat "$folder/told"
    sed -n 's/^faults //p' "$folder/told" >>"$folder/struck"
    [ "$status" -eq 0 ]
}

cd "$(dirname -- "$0")/.."
if [ "$first" = commit ]; then
    if commit=$(git -c safe.directory="$PWD" rev-parse --verify HEAD 2>/dev/null); then
        first=$(printf '%d' "0x$(printf '%.12s' "$commit")")
    else
        first=600
        echo "no commit is known here"
    fi
fi

# A node that decided a request over several counters alone, before it knew any other, fell over.
sim --seed 1 --regions 1 --nodes 3
# Two nodes of a region are gone at once, and a third comes and goes.
sim --seed 8 --regions 2 --nodes 3
# A call comes to its owner seconds after its node has given up on it.
sim --seed 71885003992695
sim --seed 7009
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
# A whole region is stopped cleanly: what a node has not saved when its standby is gone, it saves all the same.
sim --seed 152964587585883
sim --seed 49673410582984
# A node's own part of a limit went with the partitions that moved when it was cut off, and it had that part anew.
sim --seed 40446855849353
# What an owner spends ahead of its record, its standby must know of when it takes over, however long it had the copy.
cat >"$folder/schedule" <<END
551296 139385 pause eu-4
596584 107 pause eu
664480 68934 pause eu
1144041 53083 pause eu
1178191 38271 overtake eu eu-2 126441
1302060 49265 pause eu-2
END
sim --seed 500197 --regions 1 --nodes 4 --lasts 1400s --rps 10 --keys 100 --flush 100ms --schedule "$folder/schedule"
# Units ahead are charged after a crash, but not beyond what there is.
echo "6121858 802 crash ap" >"$folder/schedule"
sim --seed 500562 --regions 4 --nodes 1 --lasts 10800s --rps 10 --keys 10 --flush 100ms --schedule "$folder/schedule"
# A node is stopped while its disk takes nothing.
cat >"$folder/schedule" <<END
1130668 97307 disk-full eu-1
1145518 71074 stop eu-1
1175236 12215 swizzle eu-3
1178421 9577 swizzle eu-2
END
sim --seed 500652 --regions 1 --nodes 3 --lasts 2631s --rps 3 --keys 100 --flush 1000ms \
    --limits docs/examples/route-cost/limits.yaml --schedule "$folder/schedule"
# A node heard the other by fits and starts, and had its own part of a quota anew each time.
cat >"$folder/schedule" <<END
801389 52214 swizzle eu-2
867900 123606 delay eu-2 eu-1 1173
1326355 10103 swizzle eu-2
1337300 181900 delay eu-2 eu-1 496
1717573 97569 delay eu eu-1 729
1940445 58574 swizzle eu-2
1999738 87251 delay eu eu-1 1610
2876112 145520 delay eu-2 all 1539
END
sim --seed 700120 --regions 1 --nodes 2 --lasts 3797s --rps 3 --keys 1 --flush 1000ms \
    --limits docs/examples/plans/limits.yaml --schedule "$folder/schedule"
# Caps over all regions.
sim --seed 1 --regions 3 --nodes 2 --caps
sim --seed 2 --regions 2 --nodes 2 --caps
# The node that goes on for its region hears nobody; the other, without its lease, went on lending to the other region.
echo "11586 27571 swizzle eu-1" >"$folder/schedule"
sim --seed 192332930482321 --regions 2 --nodes 2 --keys 10 --flush 1000ms --caps --rps 200 --schedule "$folder/schedule"

tried=0
end=$(($(date +%s) + 60))
while [ "$tried" -lt "$seeds" ] && { [ "$tried" -eq 0 ] || [ "$(date +%s)" -lt "$end" ]; }; do
    sim --seed $((first + tried))
    tried=$((tried + 1))
done
printf '%d seeds from %d on; again: sh chaos/smoke.sh HEADROOM-CHAOS %d %d\n' "$tried" "$first" "$tried" "$first"

missing=$("$chaos" list | awk '/^faults/ { are_faults = 1; next } NF == 0 { are_faults = 0 } are_faults { print $1 }' |
    while read -r kind; do
        grep -q "\<$kind [0-9]" "$folder/struck" || printf ' %s' "$kind"
    done)
[ -z "$missing" ] || {
    printf 'no such fault struck under any seed:%s\n' "$missing"
    exit 1
}
