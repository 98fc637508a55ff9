#!/bin/sh
# check_deb.sh CPACK BUILD_FOLDER SOURCE_FOLDER: makes the Debian packages, unpacks them into one
# root, and runs what they hold from there.
set -eu
cpack=$1
build=$2
source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cpack" --config "$build/CPackConfig.cmake" -B "$work" >"$work/cpack.log" 2>&1 ||
  { cat "$work/cpack.log"; exit 1; }
for package in librserve0 librserve-dev rserve-tools; do
  file=$(find "$work" -maxdepth 1 -name "${package}_*.deb")
  test -n "$file" || { echo "no package $package"; exit 1; }
  dpkg-deb -x "$file" "$work/root"
  dpkg-deb -f "$file" Package Version Depends
done
library=$(find "$work/root" -name 'librserve.so.0')
LD_LIBRARY_PATH=$(dirname "$library") "$work/root/usr/bin/rserve" inspect "$source/models/digits"
test -f "$work/root/usr/include/rserve/host.h"
