#!/bin/sh
# check_purity.sh BUILD: do the pure libraries keep away from the outside world?
#
# BUILD/pure_layers.txt names them, one path a line (cmake writes it). None may call what is on the deny-list: heap,
# clock, entropy, files, output, sockets, environment, processes, threads; and none may hold a static that can change.
# Only for builds without sanitizers. Prints ARCHIVE:OBJECT: WHAT for each violation and exits 1 if there is one.
set -eu
build=${1:?usage: check_purity.sh BUILD}

deny='(__)?(malloc|calloc|realloc(array)?|free|(posix_)?memalign|aligned_alloc|strn?dup|v?asprintf|s?brk)'
deny="$deny|mmap(64)?|munmap|mremap"
deny="$deny|time|clock|clock_[a-z]*|gettimeofday|timespec_get|times|localtime(_r)?|gmtime(_r)?|mktime|tzset|strftime"
deny="$deny|getrandom|getentropy|s?random(_r)?|s?rand(_r)?|[ejlmn]rand48|arc4random.*|randombytes.*"
deny="$deny|f?open(64|at|at64|dir)?|creat|close(dir)?|p?(read|write)(v|64)?|fclose|f(read|write|lush|seek|tell)"
deny="$deny|[fl]?stat(64)?|l?seek(64)?|fsync|fdatasync|unlink|rename|ioctl|fcntl(64)?|dup[23]?|pipe2?|syscall"
deny="$deny|(__)?v?(f|s|sn|d)?(printf|scanf)(_chk)?|f?put(s|c|char)|f?get(s|c|char)|perror|std(in|out|err)"
deny="$deny|socket(pair)?|bind|listen|accept4?|connect|send(to|msg|mmsg)?|recv(from|msg|mmsg)?|[gs]etsockopt"
deny="$deny|getaddrinfo|p?poll|p?select|epoll_.*|eventfd|timerfd_.*"
deny="$deny|(secure_)?getenv|(set|unset|put|clear)env|environ|v?fork|exec[lv].*|system|waitpid|kill|raise|signal"
deny="$deny|sigaction|pthread_.*|thrd_.*|mtx_.*|sem_.*|u?sleep|nanosleep|sched_.*"
deny="$deny|uv_.*|nng_.*|mdb_.*|msgpack_.*|yaml_.*|json_.*"

# A table of pointers that the loader fills in once lies in .data.rel.ro, which is read-only afterwards: no finding.
nm_lines() {
    # No plugin: of objects that hold two forms, the plain one is read, whose statics have their true sections.
    nm --plugin=none --format=sysv "$1" 2>/dev/null | sed 's/ *| */|/g'
}

check_archive() {
    nm_lines "$1" | awk -F'|' -v archive="$1" -v deny="^($deny)\$" '
        /^[^|]*\[.*\]:$/ || /^[^|]*:$/ {
            object = $0
            sub(":$", "", object)
            sub("^.*\\[", "", object)
            sub("\\]$", "", object)
        }
        function report(what) {
            printf "%s:%s: %s\n", archive, object, what
            count++
        }
        { sub("@.*", "", $1) }
        $3 == "U" && $1 ~ deny { report("calls " $1) }
        $3 ~ "^[bBdDcC]$" && $7 !~ "^[.]data[.]rel[.]ro" { report("holds the static " $1 ", which can change") }
        END { exit count > 0 }
    '
}

if [ ! -s "$build/pure_layers.txt" ]; then
    echo "$build/pure_layers.txt: names no library" >&2
    exit 1
fi
status=0
while read -r archive; do
    check_archive "$archive" || status=1
done <"$build/pure_layers.txt"
exit $status
