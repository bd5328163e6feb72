#!/bin/sh
# Proves that the lint scripts can fail: plants one violation of each kind in a small clean tree, and wants it reported
# at its file and line, and nothing reported before it is planted.
set -eu
lint=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

fail() {
    echo "FAILED: $1"
    failures=$((failures + 1))
}

# make_clean_tree: what all the rules allow, close to what they forbid.
make_clean_tree() {
    rm -rf "$tree"
    mkdir -p "$tree/base" "$tree/limiter" "$tree/node" "$tree/tests/unit/base" "$tree/build"
    printf 'headroom_layer(base PURE\n  SOURCES a.c)\n' >"$tree/base/CMakeLists.txt"
    printf 'headroom_layer(node\n  SOURCES n.c)\n' >"$tree/node/CMakeLists.txt"
    cat >"$tree/base/a.c" <<'C'
#include "base/a.h"

#include <string.h>

/* A double // slash, strcpy(a, b) and
 * a float in comments are words. */
static const char *const texts[] = {"strcpy(", "// \" double", "'"};

const char *hr_a(unsigned index)
{
    return index < 3 ? texts[index] : "";
}
C
    echo 'const char *hr_a(unsigned index);' >"$tree/base/a.h"
    printf '#include "base/a.h"\n' >"$tree/limiter/l.c"
    printf '#include <yaml.h>\n#include "base/a.h"\ndouble hr_runtime(int);\n' >"$tree/node/n_yaml.c"
    printf '#include <cmocka.h>\n#include "node/n.h"\n' >"$tree/tests/unit/base/test_a.c"
    printf '#define NOTHING\n' >"$tree/node/n.h"
    make_archive "$tree/base/a.c"
}

# make_archive SOURCE: the pure library of the tree, as cmake would build and list it.
make_archive() {
    "${CC:-cc}" -O2 -fPIE -I"$tree" -c "$1" -o "$tree/build/a.o"
    rm -f "$tree/build/libhr_base.a"
    ar rcs "$tree/build/libhr_base.a" "$tree/build/a.o"
    echo "$tree/build/libhr_base.a" >"$tree/build/pure_layers.txt"
}

# expect_clean SCRIPT ROOT
expect_clean() {
    if ! out=$(sh "$lint/$1" "$2" 2>&1) || [ -n "$out" ]; then
        fail "$1 on the clean tree: $out"
    fi
}

# expect_report SCRIPT ROOT TEXT: it exits 1 and says TEXT, and one line only.
expect_report() {
    status=0
    out=$(sh "$lint/$1" "$2" 2>&1) || status=$?
    case "$status $out" in
    *"
"*) fail "$1 says more than '$3': $out" ;;
    "1 "*"$3"*) ;;
    *) fail "$1 wants '$3', exits $status and says '$out'" ;;
    esac
}

# plant SCRIPT FILE TEXT WANTED: appends TEXT, a printf format, to FILE and wants `FILE:ITS LAST LINE: WANTED`.
plant() {
    make_clean_tree
    # shellcheck disable=SC2059 # the format is the point
    printf "$3" >>"$tree/$2"
    expect_report "$1" "$tree" "$2:$(wc -l <"$tree/$2"): $4"
}

# plant_impure STATEMENT WANTED: a function in the pure library with this body.
plant_impure() {
    make_clean_tree
    cat >"$tree/build/a.c" <<C
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
long hr_b(char *p, long n);
long hr_b(char *p, long n)
{
    $1
    return n + (p != NULL);
}
C
    make_archive "$tree/build/a.c"
    expect_report check_purity.sh "$tree/build" "libhr_base.a:a.o: $2"
}

repeat() {
    awk -v text="$1" -v count="$2" 'BEGIN { for (i = 0; i < count; i++) printf "%s", text }'
}

make_clean_tree
expect_clean check_layers.sh "$tree"
expect_clean check_banned.sh "$tree"
expect_clean check_purity.sh "$tree/build"

plant check_layers.sh base/a.h '#include "limiter/l.h"\n' 'base/ must not include limiter/'
plant check_layers.sh limiter/l.c '  #  include "node/n.h"\n' 'limiter/ must not include node/'
plant check_layers.sh node/n.h '#include "tests/lib/t.h"\n' 'node/ must not include tests/'
plant check_layers.sh base/a.c '#include "a.h"\n' '"a.h" is no path from the root'
plant check_layers.sh node/n.h '#include "../base/a.h"\n' '"../base/a.h" is no path from the root'
for pair in uv.h:uv nng/nng.h:nng lmdb.h:lmdb yaml.h:yaml jansson.h:jansson sodium.h:sodium sodium/core.h:sodium \
    xxhash.h:xxhash msgpack.h:msgpack msgpack/pack.h:msgpack llhttp.h:llhttp ncurses.h:curses curses.h:curses; do
    plant check_layers.sh node/n.h "#include <${pair%:*}>\n" "<${pair%:*}> is only for files named *_${pair#*:}"
done
plant check_layers.sh node/n.h '#include <cmocka.h>\n' 'only tests include <cmocka.h>'

for call in strcpy strcat sprintf vsprintf strncpy strtok gets atoi rand time localtime gmtime alloca; do
    plant check_banned.sh node/n.h "#define N $call(0)\n" "banned call of $call"
done
plant check_banned.sh node/n.h 'int hr_n; // why\n' 'a // comment'
plant check_banned.sh base/a.h 'float hr_share(void);\n' 'floating point'
plant check_banned.sh base/a.h 'int hr_share(double of);\n' 'floating point'
plant check_banned.sh base/a.h 'typedef __int128 hr_wide;\n' '__int128'
plant check_banned.sh node/n.h "/* $(repeat x 116) */\n" 'over 120 columns'
plant check_banned.sh node/CMakeLists.txt "# $(repeat x 119)\n" 'over 120 columns'
for note in 'TO''DO' 'FIX''ME' 'XX''X'; do
    plant check_banned.sh node/n.h "/* $note: later */\n" 'a note of unfinished work'
done
for path in ro''ot ho''me wo''rk; do
    plant check_banned.sh node/n.h "#define PATH \"/$path/me\"\n" 'a path of one machine'
done

make_clean_tree
printf 'void hr_long(void)\n{\n%s}\n' "$(repeat '    ;@' 69 | tr @ '\n')
" >>"$tree/node/n.h"
expect_report check_banned.sh "$tree" 'node/n.h:3: a function of 71 lines'

plant_impure 'p = malloc((size_t)n);' 'calls malloc'
plant_impure 'free(p);' 'calls free'
plant_impure 'n = time(NULL);' 'calls time'
plant_impure 'struct timespec t; n = clock_gettime(CLOCK_REALTIME, &t);' 'calls clock_gettime'
plant_impure 'n = random();' 'calls random'
plant_impure 'n = read(0, p, 1);' 'calls read'
plant_impure '(void)fopen(p, p);' 'calls fopen'
plant_impure 'printf("%ld", n);' 'calls printf'
plant_impure 'n = socket(1, 2, 3);' 'calls socket'
plant_impure 'p = getenv(p);' 'calls getenv'
plant_impure 'n = pthread_mutex_lock((void *)p);' 'calls pthread_mutex_lock'
plant_impure 'usleep(1);' 'calls usleep'
plant_impure 'int uv_run(void *, int); n = uv_run(p, 0);' 'calls uv_run'
plant_impure 'int nng_send(void); n = nng_send();' 'calls nng_send'
plant_impure 'int mdb_get(void); n = mdb_get();' 'calls mdb_get'
plant_impure 'static long calls; n = ++calls;' 'holds the static calls'

make_clean_tree
: >"$tree/build/pure_layers.txt"
expect_report check_purity.sh "$tree/build" 'names no library'

if [ "$failures" -gt 0 ]; then
    echo "$failures failed"
    exit 1
fi
echo 'every planted violation was found'
