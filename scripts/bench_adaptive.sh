#!/usr/bin/env bash
# Measures whether the adaptive scheme is ever slower than the better of two fixed placements and
# says PASS or FAIL for each comparison:
#
#   scripts/bench_adaptive.sh [RSERVE_BINARY] [WORK_FOLDER]
#
# For random models whose encoding of a request takes three times its prefill, as long, and a third,
# adaptive, colocated on all cores and rserve on split cores, in turning order; rserve with all three
# pictures of a request in a batch (its default C) and with each alone, whichever suits it:
#
#   1. one request alone: TTFT of adaptive at most 1.03 of each of them (median of 31);
#   2. 12 requests at once: mean TTFT at most 1.03 of theirs, throughput at least 0.97 (median of 9).
#
# Requests are short (about 0.1 s) and repeats many, so that those compared stand next to each other:
# on a machine whose speed drifts the median of many short pairs is steadier than that of few long.
# Needs two cores or more that nothing else uses, and python3; takes less than ten minutes on two.
# Exits with 1 when a claim fails.

set -euo pipefail

root="$(cd "$(dirname "$0")/.." && pwd)"
rserve="${1:-$root/build/release/bin/rserve}"
work="${2:-$(mktemp -d)}"
mkdir -p "$work"
[ $# -ge 2 ] || trap 'rm -rf "$work"' EXIT

# 3 pictures of 64 tokens and 86 other tokens.
request=(--images 3 --image-size 224x224 --text-tokens 64 --trailing-text-tokens 16)
for kind in "three 3 3" "one 1 3" "third 1 9"; do
  read -r name vision layers <<< "$kind"
  model="$work/$name"
  if [ ! -e "$model/model.safetensors" ]; then
    "$rserve" make-model "$model" --preset 3b --hidden 512 --layers "$layers" --intermediate 2432 \
      --vocab 2048 --vision-hidden 512 --vision-layers "$vision" --max-positions 8192
  fi
  for load in "alone 1 31" "at-once 12 9"; do
    read -r what requests repeat <<< "$load"
    "$rserve" bench "$model" --requests "$requests" "${request[@]}" --repeat "$repeat" \
      --schemes adaptive,colocated,rserve,rserve:64 --json "$work/$name-$what.json"
    echo
  done
done

python3 - "$work" <<'PY'
import json, sys

work = sys.argv[1]
failed = 0


def claim(name, value, sign, limit):
    global failed
    good = value <= limit if sign == "<=" else value >= limit
    failed += not good
    print(f"{'PASS' if good else 'FAIL'}  {name:<66} {value:.3f} {sign} {limit:.2f}")


for name in ("three", "one", "third"):
    for load in ("alone", "at-once"):
        report = json.load(open(f"{work}/{name}-{load}.json"))
        solo = report["solo"]
        what = f"encode / prefill {solo['encode_ms'] / solo['prefill_ms']:.2f}, {load}"
        placed = {one["topology"] for one in report["runs"] if one["scheme"] == "adaptive"}
        print(f"      {what}: adaptive began as {', '.join(sorted(placed))}")
        for ratio in report["ratios"]:
            to = f"{ratio['to']} C={ratio['to_encode_batch_tokens']}"
            claim(f"{what}: TTFT adaptive / {to}", ratio["ttft"], "<=", 1.03)
            if load != "alone":
                claim(f"{what}: throughput adaptive / {to}", ratio["tokens_per_s"], ">=", 0.97)
sys.exit(1 if failed else 0)
PY
