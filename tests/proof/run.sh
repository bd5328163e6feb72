#!/bin/sh
# tests/proof/run.sh [--ctest] [--self-test]: proves limiter/gcra.c with Frama-C's WP: no run-time error (overflow,
# division by zero, memory), the contracts of limiter/gcra.h over mathematical integers, and the laws that follow from
# them (gcra_laws.c). Prints the goals of each function, then `N of N goals proved`; exits 1 where one is not.
#
#   --self-test  plants faults in a copy instead, and exits 1 if one of them is not noticed
#   --ctest      where the tools are missing, exits 77 (ctest's "skipped") rather than 0
#
# Debian 12: apt-get install --no-install-recommends frama-c-base why3 z3 cvc4
set -eu
cd "$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)"

missing_status=0
self_test=0
for argument; do
    case $argument in
    --ctest) missing_status=77 ;;
    --self-test) self_test=1 ;;
    *)
        echo 'usage: tests/proof/run.sh [--ctest] [--self-test]' >&2
        exit 2
        ;;
    esac
done
for tool in frama-c why3 z3 cvc4; do
    if ! command -v "$tool" >/dev/null; then
        echo "$tool is not installed: nothing was proved"
        exit "$missing_status"
    fi
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export WHY3CONFIG="$PWD/tests/proof/why3.conf"

# list_functions FILE: the functions that FILE defines, one a line.
list_functions() {
    sed -nE 's/^[a-z].*[ *]([a-z0-9_]+)\(.*[^;]$/\1/p' "$1"
}

# prove FILE FUNCTION...: leaves WP's account in $scratch/log, and fails where it says anything but that all is proved.
prove() {
    file=$1
    shift
    proved=0
    total=0
    frama-c -cpp-extra-args="-I$PWD" -wp -wp-rte -wp-fct "$(echo "$@" | tr ' ' ,)" \
        -wp-prover z3,cvc4,z3-tangents -wp-timeout 5 -wp-par "$(nproc)" "$file" >"$scratch/log" 2>&1 || return 1
    proved=$(sed -nE 's|^\[wp\] Proved goals: +([0-9]+) / [0-9]+$|\1|p' "$scratch/log")
    total=$(sed -nE 's|^\[wp\] Proved goals: +[0-9]+ / ([0-9]+)$|\1|p' "$scratch/log")
    [ "${total:-0}" -gt 0 ] && [ "$proved" -eq "$total" ]
}

report_functions() {
    for function; do
        goals=$(grep -c "Goal typed_${function}_" "$scratch/log" || true)
        failed=$(grep "Goal typed_${function}_" "$scratch/log" | grep -vc ': Valid' || true)
        printf '%5d of %3d  %s\n' $((goals - failed)) "$goals" "$function"
        if [ "$goals" -eq 0 ]; then
            return 1
        fi
    done
}

prove_all() {
    status=0
    proved_all=0
    total_all=0
    for file in limiter/gcra.c tests/proof/gcra_laws.c; do
        echo "$file"
        functions=$(list_functions "$file")
        # shellcheck disable=SC2086 # a list of words
        prove "$file" $functions || status=1
        # shellcheck disable=SC2086
        report_functions $functions || status=1
        grep -E 'Failed\]|Error' "$scratch/log" || true
        proved_all=$((proved_all + ${proved:-0}))
        total_all=$((total_all + ${total:-0}))
    done
    echo "$proved_all of $total_all goals proved"
    return "$status"
}

# plant FUNCTION FILE SED-SCRIPT: must change the file, and then FUNCTION of limiter/gcra.c must not be provable.
plant() {
    rm -rf "$scratch/copy"
    mkdir "$scratch/copy"
    cp -R base limiter "$scratch/copy"
    sed -E "$3" "$2" >"$scratch/copy/$2"
    if cmp -s "$2" "$scratch/copy/$2"; then
        printf 'NOT PLANTED in %s: %s\n' "$1" "$3"
        return 1
    fi
    if (cd "$scratch/copy" && prove limiter/gcra.c "$1"); then
        printf 'NOT NOTICED in %s: %s\n' "$1" "$3"
        return 1
    fi
    if ! grep -q "Failed. Goal typed_$1_" "$scratch/log"; then
        cat "$scratch/log"
        printf 'BROKEN, not refuted, in %s: %s\n' "$1" "$3"
        return 1
    fi
    printf 'noticed in %s: %s\n' "$1" "$3"
}

# First that all is proved without a fault: what cannot be proved anyway notices nothing.
plant_all() {
    status=0
    code=limiter/gcra.c
    contract=limiter/gcra.h
    # shellcheck disable=SC2046 # a list of words
    if ! prove $code $(list_functions $code); then
        echo 'not all goals are proved, so planted faults would go unnoticed'
        return 1
    fi
    plant debt_at $code 's/sub_floor\(gcra->arrival, (.*)\);$/sub_floor(\1, gcra->arrival);/' || status=1
    plant hr_gcra_fits $code 's/hr_u128_le\(after, (.*)\);$/!hr_u128_le(\1, after);/' || status=1
    plant hr_gcra_fits $contract 's/<= HR_COST_MAX \* rule->period_ns;/>= 0;/' || status=1
    plant hr_gcra_take $code 's/rule->rate\), after\);$/rule->rate), debt_at(gcra, rule, now));/' || status=1
    plant hr_gcra_give_back $code 's/hr_u128_sub_floor\(debt_at/hr_u128_add(debt_at/' || status=1
    plant hr_gcra_remaining $code 's/hr_u128_div\(room/hr_u128_div_ceil(room/' || status=1
    plant drain_ms $code 's/hr_u128_div_ceil\(units/hr_u128_div(units/' || status=1
    plant drain_ms $code 's/\(uint64_t\)HR_ANSWER_MAX/UINT64_MAX/' || status=1
    plant drain_ms $code 's/saturate\(ms/saturate(hr_u128_mul(UINT64_MAX, 1)/' || status=1
    plant drain_ms $contract 's/1 <= rule->rate/0 <= rule->rate/' || status=1
    plant restate $code 's/hr_u128_div_ceil\((hr_u128_mul\(part)/hr_u128_div(\1/' || status=1
    plant hr_gcra_adopt $code 's/now, to->rate/now, from->rate/' || status=1
    return "$status"
}

if [ "$self_test" -eq 1 ]; then
    plant_all
else
    prove_all
fi
