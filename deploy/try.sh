#!/bin/sh
# try.sh [--keep] [--seconds N]: installs the packages that are missing, builds a release, starts three regions of two
# nodes each on loopback, 80 ms from one another, and loads all of them in phases of N seconds (15 by default), of which
# the second cuts a region off and the third heals it. Ends in a table: by phase and region what was offered, admitted
# and denied, and for all regions together the cap and by how much it was overshot. Then it stops everything; --keep
# leaves the cluster running and prints its addresses. HEADROOM_BIN names a folder with programs that are built already.
set -eu
cd "$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)"

regions='eu us ap'
rate=900   # of the cap over all regions, a second
burst=900
offered=600 # against the cap, a second, in each region
keep=
seconds=15
folder=
cluster=

fail() {
    echo "try.sh: $1" >&2
    exit "${2:-1}"
}

read_options() {
    while [ $# -gt 0 ]; do
        case $1 in
        --keep) keep=yes ;;
        --seconds)
            [ $# -gt 1 ] || fail '--seconds needs a number' 2
            seconds=$2
            shift
            ;;
        --help)
            sed -n '2,6s/^# //p' deploy/try.sh
            exit 0
            ;;
        *) fail "unknown option $1" 2 ;;
        esac
        shift
    done
    case $seconds in
    '' | *[!0-9]* | 0*) fail '--seconds must be a whole number from 1' 2 ;;
    esac
}

build() {
    if [ -n "${HEADROOM_BIN:-}" ]; then
        headroom=$HEADROOM_BIN/headroom
        return
    fi
    sh deploy/install-packages.sh build
    cmake --preset release
    cmake --build --preset release --parallel "$(nproc)" --target headroom headroomd headroom-chaos
    headroom=build/release/headroom
}

# --- the cluster ---

write_limits() {
    cat >"$folder/limits.yaml" <<END
limits:
  - name: world # one cap over all regions
    when: {tenant: "*"}
    algorithm: token_bucket
    rate: $rate/s
    burst: $burst
    scope: global
    reserve: 20%
  - name: key-rps # for each key, in each region
    key: [api_key]
    algorithm: token_bucket
    rate: 20/s
    burst: 40
END
}

# The cluster has a session of its own: with --keep it outlives this script and its terminal's Ctrl-C.
start() {
    setsid "$headroom" local --regions "$(echo "$regions" | tr ' ' ,)" --nodes 2 --wan-delay 80ms \
        --limits "$folder/limits.yaml" --data "$folder/cluster" --json >"$folder/cluster.json" 2>"$folder/cluster.err" &
    cluster=$!
    while ! [ -s "$folder/cluster.json" ]; do
        kill -0 "$cluster" 2>/dev/null || fail "the cluster did not start: $(cat "$folder/cluster.err")"
        sleep 0.1
    done
    tries=0
    while ! is_formed; do
        tries=$((tries + 1))
        [ $tries -lt 150 ] || fail "the nodes do not find one another; their logs are in $folder/cluster"
        sleep 0.2
    done
}

# Stops what was started, whatever has happened.
stop() {
    trap - EXIT INT TERM
    if [ -n "$cluster" ]; then
        kill "$cluster" 2>/dev/null || true
        wait "$cluster" || true
    fi
    [ -z "$folder" ] || rm -rf "$folder"
}

# nodes_of KIND [REGION]: addresses of one kind, one a line, of one region's nodes or of all.
nodes_of() {
    tr '{' '\n' <"$folder/cluster.json" |
        sed -n "s/.*\"region\":\"${2:-[^\"]*}\".*\"$1\":\"\([^\"]*\)\".*/\1/p"
}

# Does every node know of all six, and are all its region's counters answered for?
is_formed() {
    for node in $(nodes_of rpc); do
        [ "$("$headroom" members --json --node "$node" | tr '{' '\n' | grep -c '"state":"alive"')" -eq 6 ] || return 1
        ! "$headroom" peek tenant=k0000000000 --json --node "$node" | grep -q '"degraded":true' || return 1
    done
}

# --- load ---

# load PHASE REGION: against the cap at one node of the region, and of many keys at the other. Adds to $loads who loads.
load() {
    "$headroom" bench --json --node "$(nodes_of rpc "$2" | sed -n 1p)" --seconds "$seconds" --rate "$offered" \
        --connections 8 --attribute tenant --keys 1 >"$folder/$1.$2.world" &
    loads="$loads $!"
    "$headroom" bench --json --node "$(nodes_of rpc "$2" | sed -n 2p)" --seconds "$seconds" --rate 2000 \
        --connections 8 --keys 1000 --skew 0.99 >"$folder/$1.$2.key-rps" &
    loads="$loads $!"
}

# number KEY FILE: a number out of a line of JSON.
number() {
    sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$2"
}

# row PHASE REGION LIMIT OFFERED ADMITTED DENIED NO-ANSWER CAP OVERSHOOT: one row of the table.
row() {
    printf '%-7s %-6s %-7s %8s %8s %8s %9s %8s %9s\n' "$@" | sed 's/ *$//' >>"$folder/table"
}

# report PHASE REGION LIMIT
report() {
    file=$folder/$1.$2.$3
    row "$1" "$2" "$3" "$(($(number requests "$file") + $(number unsent "$file")))" "$(number allowed "$file")" \
        "$(number denied "$file")" "$(($(number errors "$file") + $(number unsent "$file")))" '' ''
}

# sum KEY PHASE: over the regions, of the load against the cap.
sum() {
    total=0
    for region in $regions; do
        total=$((total + $(number "$1" "$folder/$2.$region.world")))
    done
    echo $total
}

# What all regions together have admitted in a phase of so many seconds, beside what the cap allows in that time at
# most: its burst, and what is refilled meanwhile.
report_cap() {
    admitted=$(sum allowed "$1")
    cap=$(awk -v seconds="$2" -v rate=$rate -v burst=$burst 'BEGIN { printf "%d", burst + rate * seconds }')
    over=$((admitted > cap ? admitted - cap : 0))
    [ $over -eq 0 ] || overshot=yes
    row "$1" all world "$(($(sum requests "$1") + $(sum unsent "$1")))" "$admitted" "$(sum denied "$1")" \
        "$(($(sum errors "$1") + $(sum unsent "$1")))" "$cap" $over
}

elapsed() {
    awk -v from="$1" -v to="$(date +%s.%N)" 'BEGIN { printf "%.3f", to - from }'
}

# phase NAME WHAT: loads all regions at once, and reports.
phase() {
    echo "$1: $seconds s, $2"
    loads=
    began=$(date +%s.%N)
    for region in $regions; do
        load "$1" "$region"
    done
    for one in $loads; do
        wait "$one" || fail "a load ended with an error in phase $1"
    done
    took=$(elapsed "$began")
    for region in $regions; do
        report "$1" "$region" world
        report "$1" "$region" key-rps
    done
    report_cap "$1" "$took"
}

read_options "$@"
build
folder=$(mktemp -d)
trap stop EXIT
trap 'exit 130' INT TERM
write_limits
echo "starting three regions of two nodes, 80 ms from one another"
start
overshot=
row phase region limit offered admitted denied 'no answer' cap overshoot
phase steady "all regions ask for more than the cap"
"$headroom" local cut us --data "$folder/cluster"
phase cut "the region us is cut off from the others"
"$headroom" local heal us --data "$folder/cluster"
phase healed "it is healed"
echo
echo "world: a cap of $rate/s with a burst of $burst over all regions; key-rps: 20/s for each key, in each region"
echo
cat "$folder/table"

if [ -n "$keep" ]; then
    trap - EXIT INT TERM
    echo
    echo "the cluster is running; rpc at: $(nodes_of rpc | tr '\n' ' ')"
    echo "files and logs are in $folder/cluster; stop it with: kill $cluster"
    exit 0
fi
[ -z "$overshot" ] || fail 'more was admitted than the cap allows'
