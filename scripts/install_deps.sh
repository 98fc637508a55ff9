#!/usr/bin/env bash
# Installs the Debian/Ubuntu packages that the build needs, if any is missing. Says what it does; uses
# sudo only when not root.
#   scripts/install_deps.sh            what building needs
#   scripts/install_deps.sh --tests    also what single tests use and can do without
set -euo pipefail

packages=(g++ cmake ninja-build pkg-config ccache libabsl-dev nlohmann-json3-dev libpng-dev
          libjpeg-dev libwebp-dev libpcre2-dev catch2 binutils patch python3 libcpp-httplib-dev
          file dpkg-dev)

optional=()
if [ "${1:-}" = --tests ]; then
  optional=(abigail-tools)
fi

missing_of() {
  local package
  for package in "$@"; do
    if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed'; then
      echo "$package"
    fi
  done
}
mapfile -t missing < <(missing_of "${packages[@]}")
mapfile -t missing_optional < <(missing_of "${optional[@]}")
if [ $((${#missing[@]} + ${#missing_optional[@]})) -eq 0 ]; then
  exit 0
fi
# Nobody is asked for a password for what can be done without.
if [ "${#missing[@]}" -eq 0 ] && { [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; }; then
  echo "== Not installed: ${missing_optional[*]}; tests that use it are left out"
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "Please install the equivalents of: ${missing[*]}" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  as_root=(sudo)
fi
install() {
  echo "== Installing $* (${as_root[*]:-as root}, apt-get)"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
}
"${as_root[@]}" apt-get update -qq || [ "${#missing[@]}" -eq 0 ]
if [ "${#missing[@]}" -gt 0 ]; then
  install "${missing[@]}"
fi
if [ "${#missing_optional[@]}" -gt 0 ]; then
  install "${missing_optional[@]}" || echo "   not there; tests that use it are left out"
fi
