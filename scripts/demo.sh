#!/usr/bin/env bash
# From a fresh clone to a first token: installs what is missing, builds, and asks the shipped model
# about a few pictures with encoding and prefill overlapped.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_deps.sh
echo "== Building build/release (tool and library)"
mkdir -p build
cmake --preset release -DRSERVE_TESTS=OFF -DRSERVE_EXAMPLES=OFF >build/configure.log 2>&1 \
  || { cat build/configure.log; exit 1; }
cmake --build --preset release
rserve=build/release/bin/rserve
model=models/digits

echo
echo "== What the shipped checkpoint is"
"$rserve" inspect "$model"

pictures=()
for picture in $(ls "$model"/eval/pictures/*.png | head -n 4); do
  pictures+=(--image "$picture")
done
echo
echo "== Four pictures, one question, first token"
"$rserve" run "$model" "${pictures[@]}" --prompt "Which digit is in picture 3?"
"$rserve" run "$model" "${pictures[@]}" --prompt "What colour is picture 2?"

echo
echo "== 500 held-out prompts"
"$rserve" eval "$model" --schemes rserve
echo
echo "Next: $rserve --help, README.md, and scripts/bench_overlap.sh for the overlap measured."
