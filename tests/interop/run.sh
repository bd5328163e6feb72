#!/bin/sh
# run.sh BUILD: one headroomd of the build folder, and against it MessagePack-RPC clients that know nothing of it.
#
# Each client does the same and prints what it was answered, which must be expected.txt. A line for each:
#
#   interop: NAME ok | skipped: REASON | FAILED
#
# A tool chain that is not there, or packages that cannot be had, are a reason to skip; anything else is a failure.
# What is installed or built lies in a temporary folder; packages come by way of their managers' own caches.
# HEADROOM_INTEROP_INSTALL=1 lets root install Debian's neovim. Exit: 0, 1 if one failed, 77 if none ran.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=$(CDPATH='' cd -- "${1:?usage: run.sh BUILD}" && pwd)
node=
ran=0
failed=0

folder=$(mktemp -d -t headroom-interop-XXXXXX)
cleanup() {
    if [ -n "$node" ]; then
        kill "$node" 2>/dev/null || true
        wait "$node" || true
    fi
    rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM

# Reads the line that tells the address: it comes when the node listens, or never if the node has ended.
start_node() {
    mkfifo "$folder/node.out"
    # In the foreground mode timeout passes a signal on once. By default it does so twice, and a node that is told twice
    # to stop does not take its time.
    timeout --foreground 570 "$build/headroomd" --dev --data "$folder/data" --limits "$here/limits.yaml" \
        --rpc 127.0.0.1:0 >"$folder/node.out" 2>"$folder/node.log" &
    node=$!
    exec 3<"$folder/node.out"
    read -r line <&3 || line=
    port=$(expr "$line" : 'headroomd: rpc 127\.0\.0\.1:\([0-9]*\)') || {
        cat "$folder/node.log"
        exit 1
    }
}

stop_node() {
    kill "$node"
    status=0
    wait "$node" || status=$?
    node=
    if [ "$status" -ne 0 ]; then
        echo "interop: headroomd FAILED with $status"
        tail -n 30 "$folder/node.log"
        failed=1
    fi
}

skip() { echo "interop: $1 skipped: $2"; }

fail() {
    echo "interop: $1 FAILED"
    cat "$2"
    failed=1
    ran=1
}

# quietly SECONDS COMMAND...: what it prints is in quietly.log.
quietly() { timeout -k 5 "$@" >"$folder/quietly.log" 2>&1 </dev/null; }

# client NAME COMMAND...: what it prints must be what is expected.
client() {
    name=$1
    shift
    ran=1
    if ! timeout -k 5 20 "$@" >"$folder/$name.out" 2>"$folder/$name.err" </dev/null; then
        echo "exited with a failure" >>"$folder/$name.out"
    fi
    if diff -u "$here/expected.txt" "$folder/$name.out" >"$folder/$name.diff"; then
        echo "interop: $name ok"
    else
        tail -n 30 "$folder/$name.err" >>"$folder/$name.diff"
        fail "$name" "$folder/$name.diff"
    fi
}

# has NAME TOOL: or skips NAME.
has() {
    command -v "$2" >/dev/null && return 0
    skip "$1" "no $2"
    return 1
}

run_spec() {
    has spec python3 || return 0
    client spec python3 -B "$here/spec_client.py" 127.0.0.1 "$port"
}

run_pynvim() {
    has pynvim python3 || return 0
    if ! quietly 60 python3 -m venv "$folder/venv"; then
        skip pynvim "python3 makes no venv"
    elif ! quietly 60 "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --retries 0 --timeout 15 \
        -r "$here/pynvim.txt"; then
        skip pynvim "its packages cannot be had"
    else
        client pynvim "$folder/venv/bin/python" -B "$here/pynvim_client.py" 127.0.0.1 "$port"
    fi
}

run_go() {
    has go go || return 0
    cp -R "$here/go" "$folder/go"
    if ! (cd "$folder/go" && GOTOOLCHAIN=local quietly 45 go mod download); then
        skip go "its module cannot be had"
    elif ! (cd "$folder/go" && GOTOOLCHAIN=local quietly 120 go build -o client .); then
        fail go "$folder/quietly.log"
    else
        client go "$folder/go/client" 127.0.0.1 "$port"
    fi
}

run_npm() {
    has npm npm && has npm node || return 0
    cp -R "$here/npm" "$folder/npm"
    if ! (cd "$folder/npm" && quietly 45 npm ci --ignore-scripts --no-audit --no-fund --fetch-retries=0); then
        skip npm "its packages cannot be had"
    else
        client npm node "$folder/npm/client.js" 127.0.0.1 "$port"
    fi
}

run_rust() {
    has rust cargo || return 0
    cp -R "$here/rust" "$folder/rust"
    if ! (cd "$folder/rust" && CARGO_NET_RETRY=0 CARGO_HTTP_TIMEOUT=15 quietly 45 cargo fetch); then
        skip rust "its crates cannot be had"
    elif ! (cd "$folder/rust" && quietly 150 cargo build --offline --target-dir "$folder/rust/target"); then
        fail rust "$folder/quietly.log"
    else
        client rust "$folder/rust/target/debug/interop" 127.0.0.1 "$port"
    fi
}

install_neovim() {
    if [ "${HEADROOM_INTEROP_INSTALL:-0}" != 1 ] || [ "$(id -u)" -ne 0 ] || command -v nvim >/dev/null; then
        return 0
    fi
    DEBIAN_FRONTEND=noninteractive quietly 100 apt-get install --yes --no-install-recommends neovim || true
}

run_neovim() {
    install_neovim
    has neovim nvim || return 0
    client neovim env HOST=127.0.0.1 PORT="$port" XDG_CONFIG_HOME="$folder" XDG_DATA_HOME="$folder" \
        XDG_STATE_HOME="$folder" XDG_CACHE_HOME="$folder" \
        nvim --headless -u NONE -i NONE -n -c "luafile $here/neovim_client.lua"
}

start_node
for one in spec pynvim npm go neovim rust; do
    "run_$one"
done
stop_node

[ "$failed" -eq 0 ] || exit 1
[ "$ran" -eq 1 ] || exit 77
