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

scripts/install_deps.sh --tests
jobs=$(nproc)

build() {  # preset, target
  echo "== Building $1 ($2)"
  cmake --preset "$1" -DRSERVE_TESTS=ON -DRSERVE_EXAMPLES=ON >/dev/null
  cmake --build --preset "$1" --target "$2"
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

build release all
run release "${soak[@]}"
# Memory and undefined behaviour: everything that reads input from outside or owns a buffer.
build asan-ubsan tests_sanitize
run asan-ubsan -L sanitize
# Data races: everything with threads.
build tsan tests_threads
run tsan -L threads
echo "== All tests passed"
