#!/bin/sh
# chaos/defects.sh HEADROOM-CHAOS: a build with HEADROOM_DEFECTS has deliberate defects in it (base/defect.h). Each must
# be caught under the seed that is named here; and under the same seeds, without any, every invariant must hold.
set -eu
chaos=$1

# defect, seed, regions, nodes, requests a second, length, and what else
table() {
    cat <<'TABLE'
free-tokens     1 2 1 300 200s
window-forgets  1 2 1 300 200s
log-forgets     1 2 1 300 200s
quota-reopens   2 2 1 300 200s
wall-rates      1 2 1 300 200s
slot-stays      1 2 1 300 200s
slot-twice      1 2 1 300 200s
id-forgets      1 2 1 300 200s
restore-drains  1 2 1 300 200s
denied-charges  1 2 1 300 200s
lease-alone     2 1 3 30 60s
evicts-early    2 1 3 30 60s
charter-older   5 1 3 30 60s
handover-loses  4 1 3 150 90s
copy-dropped    4 1 3 150 90s
hold-twice      7 1 3 150 90s
commit-gives    1 1 3 150 90s
settle-lost     1 1 3 150 90s
silence-waits   1 1 3 150 90s
share-free      2 1 3 150 90s
fact-older      6 1 3 150 90s
never-refutes   1 1 3 150 90s
cap-whole       1 3 2 100 60s --caps
cap-part        1 3 2 100 60s --caps
cap-lent        7 3 2 200 60s --caps
TABLE
}

sim() { # SEED REGIONS NODES RPS LASTS [OPTION...]
    seed=$1 regions=$2 nodes=$3 rps=$4 lasts=$5
    shift 5
    "$chaos" sim --seed "$seed" --regions "$regions" --nodes "$nodes" --rps "$rps" --lasts "$lasts" --no-shrink "$@" \
        2>/dev/null
}

table | {
    missed=0
    while read -r defect numbers; do
        status=0
        # shellcheck disable=SC2086 # the numbers are words of their own
        found=$(sim $numbers --defect "$defect") || status=$?
        if [ "$status" -eq 1 ]; then
            printf '%-15s caught: %s\n' "$defect" "$(printf '%s\n' "$found" | awk '/VIOLATED/ {printf "%s ", $1}')"
        else
            printf '%-15s MISSED (%s)\n' "$defect" "$numbers"
            missed=$((missed + 1))
        fi
    done
    [ "$missed" -eq 0 ]
}

table | cut -d ' ' -f 2- | sed 's/^ *//' | sort -u | while read -r numbers; do
    # shellcheck disable=SC2086
    sim $numbers >/dev/null || { printf 'without a defect: an invariant was violated (%s)\n' "$numbers"; exit 1; }
done
echo "without a defect the same seeds pass"
