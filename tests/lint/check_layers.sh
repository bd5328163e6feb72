#!/bin/sh
# check_layers.sh ROOT: do all includes point down?
#
#   1. A file includes project headers by their path from the root, and only those of its own folder or of a lower one.
#   2. Only a file whose name ends in a library's name includes that library: `ls` shows where the outside world is.
#
# Prints FILE:LINE: WHAT for each violation and exits 1 if there is one.
set -eu
cd "${1:?usage: check_layers.sh ROOT}"

# Lowest first. The order is that of docs/ARCHITECTURE.md.
layers="base limiter rpc storage gossip region node chaos bench tests"

# A header's prefix, and what the name of a file that includes it must end in. cmocka is for tests/unit only.
libraries="
    curses.h _curses    ncurses _curses     jansson _jansson    llhttp _llhttp    lmdb.h _lmdb
    msgpack _msgpack    nng/ _nng           sodium _sodium      uv.h _uv          uv/ _uv
    xxhash.h _xxhash    yaml.h _yaml"

folders=
for layer in $layers; do
    if [ -d "$layer" ]; then
        folders="$folders $layer"
    fi
done

# shellcheck disable=SC2086 # one word for each folder
find $folders -name '*.[ch]' -exec grep -nE '^[ 	]*#[ 	]*include' /dev/null {} + | LC_ALL=C sort -t: -k1,1 -k2,2n |
awk -F: -v layers="$layers" -v libraries="$libraries" '
    function report(what) {
        printf "%s:%s: %s\n", $1, $2, what
        count++
    }

    function check_layer(own, path, used) {
        used = path
        sub("/.*", "", used)
        if (!(used in rank) || path !~ "/") {
            report("\"" path "\" is no path from the root of the project")
        } else if (rank[used] > rank[own]) {
            report(own "/ must not include " used "/, which is above it")
        }
    }

    function check_library(file, path, prefix) {
        if (index(path, "cmocka") == 1 && index(file, "tests/") != 1) {
            report("only tests include <" path ">")
        }
        sub("[.][ch]$", "", file)
        for (prefix in suffix) {
            if (index(path, prefix) == 1 && file !~ suffix[prefix] "$") {
                report("<" path "> is only for files named *" suffix[prefix])
            }
        }
    }

    BEGIN {
        n = split(layers, name, " ")
        for (i = 1; i <= n; i++) {
            rank[name[i]] = i
        }
        n = split(libraries, word, " ")
        for (i = 1; i < n; i += 2) {
            suffix[word[i]] = word[i + 1]
        }
    }

    {
        own = $1
        sub("/.*", "", own)
        path = $0
        sub("^[^<\"]*[<\"]", "", path)
        sub("[>\"].*$", "", path)
        if ($0 ~ "include[ \t]*\"") {
            check_layer(own, path)
        }
        check_library($1, path)
    }

    END { exit count > 0 }
'
