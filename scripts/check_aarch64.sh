#!/usr/bin/env bash
# Compiles the CPU kernels and their tests for 64-bit ARM and runs the tests in an emulator:
#
#   scripts/check_aarch64.sh [WORK_FOLDER]
#
# Needs aarch64-linux-gnu-g++ (g++-aarch64-linux-gnu), qemu-aarch64 (qemu-user) and Catch2 2.x as
# headers (catch2 of Debian 12). Exits with 77 where one is missing, with 1 when a test fails.

set -euo pipefail

root="$(cd "$(dirname "$0")/.." && pwd)"
work="${1:-$(mktemp -d)}"
mkdir -p "$work/include"
[ $# -ge 1 ] || trap 'rm -rf "$work"' EXIT

for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v "$tool" > /dev/null || { echo "SKIPPED: $tool is not installed"; exit 77; }
done
catch2=/usr/include/catch2
[ -e "$catch2/catch.hpp" ] || { echo "SKIPPED: $catch2/catch.hpp is not there"; exit 77; }
# Only these headers of this machine are for the other one too.
ln -sfn "$catch2" "$work/include/catch2"

compile() {  # SOURCE FLAGS...
  local object="$work/$(basename "${1%.cc}").o"
  aarch64-linux-gnu-g++ -std=c++20 -Wall -Wextra -Werror -ffp-contract=off -I "$root" \
    -isystem "$work/include" "${@:2}" -c "$1" -o "$object"
  objects+=("$object")
}
objects=()
for source in "$root"/kernels/{activation,argmax,attention,gemm,rmsnorm,rotary}/*_cpu.cc \
  "$root/kernels/cpu/isa.cc"; do
  compile "$source" -O2
done
compile "$root/kernels/cpu/isa_generic.cc" -O3
for source in "$root"/tests/kernels/*_test.cc "$root/tests/support/catch_main.cc"; do compile "$source" -O1; done
aarch64-linux-gnu-g++ -static "${objects[@]}" -o "$work/kernels_test"
qemu-aarch64 "$work/kernels_test"
