#!/usr/bin/env bash
# Keeps the C headers of the ABI version that is being released; tests/abi compiles programs against
# them for ever after.
#   scripts/freeze_abi.sh
set -euo pipefail
cd "$(dirname "$0")/.."

major=$(sed -n 's/^#define RSERVE_ABI_MAJOR //p' include/rserve/version.h)
minor=$(sed -n 's/^#define RSERVE_ABI_MINOR //p' include/rserve/version.h)
frozen=tests/abi/frozen/$major.$minor
if [ -e "$frozen" ]; then
  echo "$frozen is there already, and a released ABI does not change: raise RSERVE_ABI_MINOR" >&2
  exit 1
fi
mkdir -p "$frozen/rserve"
cp include/rserve/*.h "$frozen/rserve/"
echo "Frozen in $frozen; add $major.$minor to the versions in tests/abi/CMakeLists.txt"
