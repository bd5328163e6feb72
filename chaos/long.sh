#!/bin/sh
# chaos/long.sh HEADROOM-CHAOS HOURS [FIRST]: so many simulated hours at least, seed after seed from FIRST (1000) on.
# Each seed draws what it is about: nodes alone, one region, several, or several with caps; how many nodes, how
# many requests a second, under which limits, and which kinds of faults may strike. A busy or large cluster is run for a
# shorter time, so that each run costs some seconds. Prints each seed that fails, with the command that repeats it, and
# at the end what was run. To stop it early, interrupt it: the sum is printed all the same.
set -eu
chaos=$1
wanted_s=$((${2:?how many hours} * 3600))
first=${3:-1000}
seed=$first
done_s=0
folder=$(mktemp -d)
examples=$(CDPATH='' cd -- "$(dirname -- "$0")/../docs/examples" && pwd)
kinds=$("$chaos" list | awk '/^faults/ { are_faults = 1; next } NF == 0 { are_faults = 0 } are_faults { print $1 }')

tell() { # what was run, by kind of cluster; then the faults that struck
    awk -v seeds="$first to $((seed - 1))" '
        $1 == "run" { of = $2; runs[of]++; seconds[of] += $3; failed[of] += $4 }
        $1 == "asked" { asked[of] += $2 }
        $1 == "faults" { gsub(/,/, ""); for (i = 2; i < NF; i += 2) faults[$i] += $(i + 1) }
        END {
            printf "seeds %s\n%-8s %8s %8s %12s %8s\n", seeds, "", "runs", "hours", "requests", "failed"
            for (of in runs) {
                printf "%-8s %8d %8.1f %12d %8d\n", of, runs[of], seconds[of] / 3600, asked[of], failed[of]
                all += runs[of]; time += seconds[of]; requests += asked[of]; bad += failed[of]
            }
            printf "%-8s %8d %8.1f %12d %8d\nfaults that struck:", "all", all, time / 3600, requests, bad
            for (kind in faults) printf " %s %d", kind, faults[kind]
            print ""
            exit bad > 0
        }' "$folder/ran"
}
leave() { rm -rf "$folder"; }
trap leave EXIT
trap 'tell || true; exit 1' INT TERM

draw() { # BELOW: sets $drawn
    state=$(((state * 1103515245 + 12345) % 2147483648))
    drawn=$((state / 65536 % $1))
}

pick() { # WORD...: sets $picked
    draw $#
    shift "$drawn"
    picked=$1
}

draw_cluster() { # sets $of, $regions, $nodes, $rps, $limits
    regions=1 nodes=1 limits=''
    pick alone alone one-region one-region regions regions regions caps
    of=$picked
    [ "$of" = one-region ] || { draw 7; regions=$((drawn + 2)); }
    [ "$of" = alone ] || { draw 4; nodes=$((drawn + 2)); }
    [ "$of" != caps ] || { draw 2; regions=$((drawn + 2)); draw 2; nodes=$((drawn + 2)); limits=--caps; }
    pick 1 1 3 3 10 10 30 100 300 1000
    rps=$picked
    pick built-in built-in built-in classic plans route-cost window-edge
    [ "$of" = caps ] || [ "$picked" = built-in ] || limits="--limits $examples/$picked/limits.yaml"
}

draw_faults() { # sets $faults: of every kind, or of half of the kinds
    faults=''
    for kind in $kinds; do
        draw 2
        [ "$drawn" -eq 0 ] || faults="$faults${faults:+,}$kind"
    done
    draw 2
    [ "$drawn" -eq 0 ] || faults=''
}

set_length() { # sets $seconds; the costs, in µs of a processor for each simulated second, are rough
    case $of in
    alone) cost=$((regions * 50 + rps * 5)) ;;
    caps) cost=$((regions * nodes * 6500 + rps * 100)) ;;
    *) cost=$((regions * nodes * 700 + rps * 60)) ;;
    esac
    seconds=$((6000000 / cost))
    [ "$seconds" -ge 60 ] || seconds=60
    [ "$seconds" -le 10800 ] || seconds=10800
}

sim() { # OPTION...
    status=0
    "$chaos" sim --no-shrink "$@" >"$folder/told" 2>"$folder/error" || status=$?
    printf 'run %s %d %d\n' "$of" "$seconds" "$((status != 0))" >>"$folder/ran"
    sed -n '/^asked /p; /^faults /p' "$folder/told" >>"$folder/ran"
    [ "$status" -eq 0 ] || {
        printf 'failed: sim %s\n' "$*"
        grep VIOLATED "$folder/told" || cat "$folder/error"
    }
}

: >"$folder/ran"
while [ "$done_s" -lt "$wanted_s" ]; do
    state=$((seed % 2147483648))
    draw 2 # what the generator begins with is near to the seed
    draw_cluster
    draw_faults
    set_length
    # shellcheck disable=SC2086 # the limits are words of their own
    sim --seed "$seed" --regions "$regions" --nodes "$nodes" --rps "$rps" --lasts "${seconds}s" $limits \
        ${faults:+--faults "$faults"}
    seed=$((seed + 1)) done_s=$((done_s + seconds))
done
tell
