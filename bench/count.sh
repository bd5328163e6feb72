#!/bin/sh
# How many instructions a check costs, from bytes in to bytes out: counted by valgrind, so that it hardly depends on the
# machine or on what else that does. Fails where it is more than TOLERANCE per cent above what bench/count.txt keeps,
# which is to be raised with a reason, and lowered with joy.
#
# usage: count.sh BUILD [--keep]      a release build by gcc; --keep: writes bench/count.txt anew
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=$1
kept=$here/count.txt
tolerance=5
few=8192
many=24576

# All that is not the checks' own, such as the start, is the same in both runs, and drops out.
count() { # CHECKS TOGETHER
    valgrind --tool=callgrind --fair-sched=yes --callgrind-out-file=/dev/null \
        "$build/bench/count_uv" "$1" "$2" 2>&1 |
        sed -n 's/^==[0-9]*== Collected : //p'
}

each() { # TOGETHER
    echo $((($(count "$many" "$1") - $(count "$few" "$1")) / (many - few)))
}

alone=$(each 1)
together=$(each 64)
if [ "${2:-}" = --keep ]; then
    printf 'alone %d\ntogether %d\n' "$alone" "$together" >"$kept"
fi

status=0
compare() { # NAME INSTRUCTIONS
    was=$(sed -n "s/^$1 //p" "$kept")
    echo "a check, $1: $2 instructions; kept: $was"
    if [ $(($2 * 100)) -gt $((was * (100 + tolerance))) ]; then
        echo "more than $tolerance % above what is kept in bench/count.txt"
        status=1
    fi
}
compare alone "$alone"
compare together "$together"
exit $status
