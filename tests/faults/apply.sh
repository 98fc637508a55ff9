#!/bin/sh
# apply.sh PATCH SOURCE OUTPUT: writes SOURCE with PATCH applied to OUTPUT.
set -eu
rm -f "$3"
if ! patch --quiet --fuzz=0 --output="$3" "$2" "$1"; then
  rm -f "$3"
  echo "$1 does not apply any more: plant its fault anew" >&2
  exit 1
fi
