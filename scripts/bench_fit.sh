#!/usr/bin/env bash
# Measures four schemes at 0.2, 0.5 and 0.7 of the load that the slower of encoder and prefill can
# take, fits the simulator's costs to two of them and says for each of the twelve whether the
# predicted mean TTFT is within 10 % of the measured one, PASS or FAIL:
#
#   scripts/bench_fit.sh [RSERVE_BINARY] [WORK_FOLDER] [REPEATS]
#
# The same arrivals for all schemes, which take turns within every repeat (default 5). A request is
# short (about 50 ms), so that a pass has many of them in few seconds: with few, whether one request
# still joins a micro-batch decides the mean. Needs two cores that nothing else uses, and python3;
# takes about eight minutes. Exits with 1 when a claim fails.

set -euo pipefail

root="$(cd "$(dirname "$0")/.." && pwd)"
rserve="${1:-$root/build/release/bin/rserve}"
work="${2:-$(mktemp -d)}"
repeats="${3:-5}"
mkdir -p "$work"
[ $# -ge 2 ] || trap 'rm -rf "$work"' EXIT

model="$work/fit-model"
if [ ! -e "$model/model.safetensors" ]; then
  "$rserve" make-model "$model" --preset 3b --hidden 512 --layers 3 --intermediate 2432 \
    --vocab 2048 --vision-hidden 512 --vision-layers 1 --max-positions 8192
fi
request=(--images 1 --image-size 224x224 --text-tokens 32 --trailing-text-tokens 16)

"$rserve" bench "$model" --requests 1 "${request[@]}" --topology TP1+E1 --schemes rserve --repeat 9 \
  --json "$work/fit-solo.json" > /dev/null
capacity="$(python3 -c 'import json, sys
solo = json.load(open(sys.argv[1]))["solo"]
print(1000 / max(solo["encode_ms"], solo["prefill_ms"]))' "$work/fit-solo.json")"

files=()
for load in "0.2 40" "0.5 100" "0.7 140"; do
  read -r share requests <<< "$load"
  rate="$(python3 -c 'import sys; print(f"{float(sys.argv[1]) * float(sys.argv[2]):.2f}")' \
    "$share" "$capacity")"
  echo "load $share: $rate requests/s"
  file="$work/fit-$share.json"
  "$rserve" bench "$model" --requests "$requests" "${request[@]}" --rate "$rate" \
    --schemes rserve,epd,rserve_intra,colocated --repeat "$repeats" --json "$file"
  files+=("$file")
  echo
done

"$rserve" sim fit "${files[0]}" --also "${files[1]},${files[2]}" --csv "$work/fit.csv"
echo
python3 - "$work/fit.csv" <<'PY'
import csv, sys

failed = 0
for row in csv.DictReader(open(sys.argv[1])):
    error = float(row["ttft_predicted_over_measured"]) - 1
    good = abs(error) <= 0.10
    failed += not good
    name = f"{float(row['rate']):.1f} requests/s, {row['scheme']}"
    print(f"{'PASS' if good else 'FAIL'}  {name:<40} mean TTFT predicted {100 * error:+.1f} %")
sys.exit(1 if failed else 0)
PY
