#!/bin/sh
# check_growth.sh CC ABIDIFF SUPPRESSIONS OLD_INCLUDE NEW_INCLUDE: what a program compiled with the old
# headers relies on is unchanged in the new ones: functions, their types, the layout of structs.
#
# Each set of headers becomes a library of empty functions with debug information, which is what
# abidiff compares. The types that the headers leave opaque stay opaque that way.
set -eu
cc=$1
abidiff=$2
suppressions=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

stub() { # include folder, name
  {
    echo '#include "rserve/host.h"'
    cat "$1"/rserve/*.h | sed -e 's,//.*,,' -e '/^#/d' | tr '\n' ' ' |
      sed -e 's,/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/, ,g' | tr ';' '\n' |
      sed -n 's/.*\(RSERVE_API .*(.*)\) *$/\1 { __builtin_trap(); }/p'
  } >"$work/$2.c"
  "$cc" -std=c99 -g -w -fPIC -shared -Wl,-soname,librserve.so -I"$1" -o "$work/$2.so" "$work/$2.c"
}
constants() { # include folder, name
  grep -ohE '(#define RSERVE_[A-Z0-9_]+ +(0x[0-9a-f]+u|[0-9]+|INT64_MAX))|(RSERVE_[A-Z0-9_]+ = [0-9]+)' \
    "$1"/rserve/*.h | grep -vE 'RSERVE_(VERSION|ABI)_' | sort >"$work/$2.txt"
}
constants "$4" old
constants "$5" new
test -s "$work/old.txt" || { echo "no constants found in $4"; exit 1; }
if comm -23 "$work/old.txt" "$work/new.txt" | grep .; then
  echo "these constants are gone or have another value"
  exit 1
fi

stub "$4" old
stub "$5" new
echo "$(grep -c builtin_trap "$work/old.c") functions then, $(grep -c builtin_trap "$work/new.c") now"
"$abidiff" --suppressions "$suppressions" --no-added-syms "$work/old.so" "$work/new.so"
