#!/bin/sh
# chaos/same.sh HEADROOM-CHAOS OTHER: two builds, as of two compilers, print the same for the same options.
set -eu
for options in "--seed 1 --nodes 1" "--seed 2 --regions 1 --nodes 3" "--seed 3 --regions 2 --nodes 2 --caps"; do
    for program in "$1" "$2"; do
        # shellcheck disable=SC2086 # the options are words of their own
        "$program" sim --lasts 30s --rps 100 --no-shrink $options 2>/dev/null || true
    done | awk '{ line[NR] = $0 }
                END { if (NR < 4) exit 1
                      for (i = 1; i <= NR / 2; i++) if (line[i] != line[i + NR / 2]) exit 1 }' || {
        printf 'different: sim --lasts 30s --rps 100 %s\n' "$options"
        exit 1
    }
done
echo "the same traces"
