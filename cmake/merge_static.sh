#!/bin/sh
# merge_static.sh CXX OBJCOPY AR MAP OUTPUT OBJECT... -- ARCHIVE...: links the objects and what they
# need of the archives into one object with only MAP's symbols global, and archives that.
set -eu
cxx=$1
objcopy=$2
ar=$3
map=$4
output=$5
shift 5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

objects=
while [ "$1" != -- ]; do
  objects="$objects $1"
  shift
done
shift
sed -n 's/^ *\(rserve_[a-z0-9_]*\);.*/\1/p' "$map" >"$work/global"
# Groups are resolved here: a local function must not be dropped for a program's copy of it.
# shellcheck disable=SC2086
"$cxx" -r -nostdlib -Wl,--force-group-allocation -o "$work/rserve.o" $objects \
  -Wl,--start-group "$@" -Wl,--end-group
"$objcopy" --keep-global-symbols="$work/global" "$work/rserve.o"
rm -f "$output"
"$ar" qcs "$output" "$work/rserve.o"
