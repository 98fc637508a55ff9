#!/usr/bin/env bash
# Runs every parser on damaged inputs under the address and undefined-behaviour sanitizers.
#   scripts/fuzz.sh              60 s a target
#   scripts/fuzz.sh 10 gif png   10 s each of these
# With clang++ installed that time is libFuzzer's, which follows the code's branches; the mutations that
# the tests use get a sixth of it on top. Video files are among the targets where FFmpeg's libraries
# are. A failing input is kept in build/fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=60
if [[ "${1:-}" =~ ^[0-9]+$ ]]; then
  seconds=$1
  shift
fi

scripts/install_deps.sh
folder=build/fuzz
ffmpeg=OFF
if pkg-config --exists libavformat libavcodec libavutil libswscale; then
  ffmpeg=ON
fi
options=(-G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRSERVE_EXAMPLES=OFF -DRSERVE_TOOLS=OFF
         -DRSERVE_FFMPEG="$ffmpeg")
cmake -S . -B "$folder" "${options[@]}" -DRSERVE_SANITIZE=address,undefined >/dev/null
cmake --build "$folder" --target rserve_fuzz
targets=("$@")
if [ "${#targets[@]}" -eq 0 ]; then
  mapfile -t targets < <("$folder/tests/rserve_fuzz" --list)
fi

plain=$seconds
guided=no
if command -v clang++ >/dev/null; then
  guided=yes
  plain=$(( (seconds + 5) / 6 ))
  cmake -S . -B "$folder/guided" "${options[@]}" -DRSERVE_LIBFUZZER=ON -DCMAKE_C_COMPILER=clang \
    -DCMAKE_CXX_COMPILER=clang++ -DRSERVE_SANITIZE=address,undefined,fuzzer-no-link >/dev/null
  cmake --build "$folder/guided" --target tests_libfuzzer
fi

cd "$folder"
for target in "${targets[@]}"; do
  ./tests/rserve_fuzz "$target" --seconds "$plain" --seed "$(date +%s)"
  if [ "$guided" = yes ]; then
    mkdir -p "found/$target" "seeds/$target"
    ./tests/rserve_fuzz "$target" --write "seeds/$target"
    ./tests/rserve_fuzz "$target" --words "seeds/$target.words"
    words=()
    if [ -s "seeds/$target.words" ]; then
      words=("-dict=seeds/$target.words")
    fi
    "./guided/bin/rserve_libfuzzer_$target" -max_total_time="$seconds" -max_len=65536 -timeout=20 \
      "${words[@]}" -rss_limit_mb=2048 -artifact_prefix="crash-$target-" -verbosity=0 \
      -print_final_stats=1 "found/$target" "seeds/$target" >"$target.log" 2>&1 || true
    grep -E "executed_units|ERROR|SUMMARY|Test unit" "$target.log"
    if compgen -G "crash-$target-*" >/dev/null; then
      echo "libFuzzer found a fault: $folder/crash-$target-*" >&2
      exit 1
    fi
  fi
done
echo "== No target died"
