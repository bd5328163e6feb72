#!/bin/sh
# tests/run.sh [CTEST-ARGUMENT...]: installs the packages that are missing, builds with the address and undefined
# behaviour sanitizers, and runs every test. The last lines are ctest's summary.
set -eu
cd "$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)"
jobs=$(nproc)

sh deploy/install-packages.sh build test
cmake --preset asan
cmake --build --preset asan --parallel "$jobs"
exec ctest --preset asan --parallel "$jobs" "$@"
