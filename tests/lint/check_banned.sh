#!/bin/sh
# check_banned.sh ROOT: the habits that a compiler does not check.
#
#   in C      no banned call, no // comment, no function over 70 lines, no __int128 outside base/u128.h; in a folder
#             that is declared PURE no floating point
#   in code   no line over 120 columns
#   anywhere  no note of unfinished work, no path of one machine
#
# Prints FILE:LINE: WHAT for each violation and exits 1 if there is one.
set -eu
lint=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "${1:?usage: check_banned.sh ROOT}"
export LC_ALL=C.UTF-8

# Each has a bounded, reentrant or exact replacement: snprintf, memcpy, strtok_r, strtoull, hr_rng, a `now` parameter.
banned='strcpy|strcat|sprintf|vsprintf|strncpy|strtok|gets|atoi|rand|time|localtime|gmtime|alloca'

# In halves, so that these lines are no findings themselves.
unfinished='TO''DO|FIX''ME|XX''X'
machine='(^|[^A-Za-z0-9_.}-])/(ho''me|ro''ot|wo''rk|Us''ers)(/|$)'

# find_files TEST...: the project's files that pass find's tests; not seeds of fuzzers, nor what was built.
find_files() {
    find . \( -name .git -o -name corpus -o -type d -exec test -e '{}/CMakeCache.txt' \; \) -prune \
        -o -type f \( "$@" \) -print | sed 's|^\./||' | sort
}

# grep_files WHAT GREP-ARGUMENT...: reports each line, of the files named on standard input, that grep finds.
grep_files() {
    what=$1
    shift
    xargs grep -HnI "$@" /dev/null | sed -E "s/^([^:]*:[0-9]+):.*/\\1: $what/" || true
}

is_pure() {
    folder=${1%%/*}
    [ -f "$folder/CMakeLists.txt" ] && grep -qE "headroom_layer\\($folder PURE" "$folder/CMakeLists.txt"
}

check_c_file() {
    pure=0
    if is_pure "$1"; then
        pure=1
    fi
    awk -f "$lint/code.awk" "$1" | awk -v file="$1" -v pure=$pure -v banned="$banned" '
        function report(at, what) {
            printf "%s:%d: %s\n", file, at, what
        }

        { code = " " $0 }
        match(code, "[^A-Za-z0-9_](" banned ")[ ]*[(]") {
            call = substr(code, RSTART + 1, RLENGTH - 1)
            sub("[ ]*[(]$", "", call)
            report(NR, "banned call of " call)
        }
        code ~ "//" { report(NR, "a // comment") }
        pure && code ~ "[^A-Za-z0-9_](float|double)[^A-Za-z0-9_]" { report(NR, "floating point in a pure folder") }
        code ~ "__int128" && file != "base/u128.h" { report(NR, "__int128 outside base/u128.h") }
        /^\{/ { begin = NR }
        /^\}/ && begin {
            if (NR - begin + 1 > 70) {
                report(begin, "a function of " NR - begin + 1 " lines, 70 at most")
            }
            begin = 0
        }
    '
}

find_violations() {
    find_files -name '*.[ch]' | while read -r file; do
        check_c_file "$file"
    done
    find_files -name '*.[ch]' -o -name '*.sh' -o -name '*.awk' -o -name '*.py' -o -name '*.cmake' \
        -o -name CMakeLists.txt -o -path ./.ci/run |
        grep_files 'over 120 columns' -E '^.{121}'
    find_files -name '*' | grep_files 'a note of unfinished work' -wE "$unfinished"
    find_files -name '*' | grep_files 'a path of one machine' -E "$machine"
}

violations=$(find_violations)
if [ -n "$violations" ]; then
    printf '%s\n' "$violations"
    exit 1
fi
