#!/bin/sh
# check_symbols.sh MAP LIBRARY HEADERS: the functions that the headers of a folder declare, the map lists and
# the library exports are the same.
set -eu
map=$1
library=$2
headers=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Comments out, declarations on one line each, the name before the parenthesis.
cat "$headers"/*.h | sed -e 's,//.*,,' | tr '\n' ' ' | sed -e 's,/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/, ,g' |
  tr ';' '\n' | sed -n 's/.*RSERVE_API[^(]*[^(_a-z0-9]\(rserve_[a-z0-9_]*\)(.*/\1/p' |
  sort >"$work/header"
sed -n 's/^ *\(rserve_[a-z0-9_]*\);.*/\1/p' "$map" | sort >"$work/map"
nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | sort >"$work/library"

test -s "$work/header" || { echo "no functions found in $headers"; exit 1; }
diff -u "$work/header" "$work/map" || { echo "headers and map differ"; exit 1; }
diff -u "$work/map" "$work/library" || { echo "map and library differ"; exit 1; }
echo "$(wc -l <"$work/header") symbols"
