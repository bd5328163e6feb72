#!/bin/sh
# install-packages.sh SECTION...: installs those packages of these sections of packages.txt that are missing, as root or
# with sudo. Where none is, neither is needed.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

is_installed() {
    dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q ' installed$'
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@"
}

# A mirror or a network may fail for a moment.
retry() {
    for pause in 5 20 none; do
        "$@" && return 0
        [ "$pause" = none ] || sleep "$pause"
    done
    return 1
}

# The packages of one section.
packages_of() {
    sed 's/#.*//' "$here/packages.txt" |
        awk -v wanted="[$1]" '/^\[/ { is_in = $1 == wanted; next } is_in && NF { print $1 }'
}

missing=
for package in $(for section in "$@"; do packages_of "$section"; done); do
    is_installed "$package" || missing="$missing $package"
done
if [ -z "$missing" ]; then
    echo 'packages: all are installed'
    exit 0
fi

echo "packages: installing$missing"
if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    echo 'packages: run this as root, or install sudo' >&2
    exit 1
fi
retry apt update
# shellcheck disable=SC2086 # one word for each package
retry apt install --no-install-recommends $missing
