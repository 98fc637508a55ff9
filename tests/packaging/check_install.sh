#!/bin/sh
# check_install.sh CMAKE BUILD_FOLDER SOURCE_FOLDER: installs into a fresh prefix and builds the
# examples against it, as projects of their own, with find_package and with pkg-config.
set -eu
cmake=$1
build=$2
source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

"$cmake" --install "$build" --prefix "$prefix" >"$work/install.log"
library=$(find "$prefix" -name 'librserve.so' -print)
libdir=$(dirname "$library")

cp -r "$source/tests/packaging/consumer" "$work/consumer"
cp "$source/examples/host_engine/own_loop.c" "$source/examples/cpp/three_classes.cc" "$work/consumer"
"$cmake" -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_BUILD_TYPE=Debug >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
"$cmake" --build "$work/consumer/build"
"$work/consumer/build/own_loop_rserve" --virtual
"$work/consumer/build/own_loop_static" --virtual
"$work/consumer/build/three_classes" >"$work/three_classes.txt"
test -s "$work/three_classes.txt"

PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
# The prefix was chosen at install time; the file finds it from where it lies.
flags=$(pkg-config --cflags --libs rserve)
# shellcheck disable=SC2086
cc -std=c99 -D_POSIX_C_SOURCE=200112L "$work/consumer/own_loop.c" -o "$work/by_pkg_config" $flags
LD_LIBRARY_PATH=$libdir "$work/by_pkg_config" --virtual

# The static library runs without the shared one, and shows the C ABI only.
flags=$(pkg-config --static --cflags --libs rserve | sed "s/-lrserve/-l:librserve.a/")
# shellcheck disable=SC2086
cc -std=c99 -D_POSIX_C_SOURCE=200112L "$work/consumer/own_loop.c" -o "$work/static" $flags
"$work/static" --virtual
"$work/static" | grep -q . # with threads and a clock
if nm --defined-only --extern-only "$libdir/librserve.a" | awk 'NF == 3 {print $3}' |
  grep -v '^rserve_'; then
  echo "the static library exports more than its C ABI"
  exit 1
fi

# Nothing that rserve is made of shows in what it exports.
if nm -D --defined-only "$library" | grep -v ' rserve_' | grep -v ' A '; then
  echo "the library exports more than its C ABI"
  exit 1
fi
echo "installed and consumed"
