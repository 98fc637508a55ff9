#!/bin/sh
# run.sh CMAKE BUILD_FOLDER FAULTS_FOLDER: builds the programs with planted faults and requires that
# the random test of each one fails and names the invariant that its patch breaks.
set -eu
cmake=$1 build=$2 folder=$3
here=$(dirname "$0")
"$cmake" --build "$build" --target core_faults
failures=0
count=0
for patch in "$here"/*.patch; do
  name=$(basename "$patch" .patch)
  invariant=$(sed -n 's/^Invariant: //p' "$patch")
  count=$((count + 1))
  if timeout 120 "$folder/core_fault_$name" --sequences 20000 >"$folder/$name.out" 2>&1; then
    echo "$name: NOT FOUND"
    failures=$((failures + 1))
  elif grep -q "^seed [0-9]*: invariant $invariant: " "$folder/$name.out"; then
    echo "$name: $(grep '^seed ' "$folder/$name.out" | tail -n 1)"
  else
    echo "$name: found, but not as invariant $invariant: $(tail -n 2 "$folder/$name.out" | head -n 1)"
    failures=$((failures + 1))
  fi
done
echo "$count planted faults, $failures not found"
test "$count" -gt 0 && test "$failures" -eq 0
