#!/usr/bin/env bash
# Installs the Debian/Ubuntu packages that the build needs, if any is missing. Says what it does; uses
# sudo only when not root.
set -euo pipefail

packages=(g++ cmake ninja-build pkg-config ccache libabsl-dev nlohmann-json3-dev libpng-dev
          libjpeg-dev libwebp-dev libpcre2-dev catch2 binutils patch python3 libcpp-httplib-dev
          file dpkg-dev)

missing=()
for package in "${packages[@]}"; do
  if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed'; then
    missing+=("$package")
  fi
done
if [ "${#missing[@]}" -eq 0 ]; then
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
echo "== Installing ${missing[*]} (${as_root[*]:-as root}, apt-get)"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
