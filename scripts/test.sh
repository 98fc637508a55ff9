#!/usr/bin/env bash
# Builds and runs all tests: release, then the sanitizers over what they are for.
#   scripts/test.sh          everything that belongs in CI
#   scripts/test.sh --full   the long soaks as well
set -euo pipefail
cd "$(dirname "$0")/.."

full=no
case "${1:-}" in
  --full) full=yes ;;
  "") ;;
  *) echo "usage: scripts/test.sh [--full]" >&2; exit 2 ;;
esac

scripts/install_deps.sh
jobs=$(nproc)

build() {  # preset, extra cmake options...
  local preset=$1
  shift
  echo "== Building $preset"
  cmake --preset "$preset" "$@" >/dev/null
  cmake --build --preset "$preset"
}

run() {  # preset, ctest options...
  local preset=$1
  shift
  echo "== Testing $preset"
  ctest --preset "$preset" -j "$jobs" "$@"
}

soak=(-LE nightly)
if [ "$full" = yes ]; then
  soak=()
fi

build release -DRSERVE_TESTS=ON -DRSERVE_EXAMPLES=ON
run release "${soak[@]}"
# Memory and undefined behaviour: everything that reads input from outside or owns a buffer.
build asan-ubsan
run asan-ubsan -L sanitize
# Data races: everything with threads.
build tsan
run tsan -L threads
echo "== All tests passed"
