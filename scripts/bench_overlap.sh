#!/usr/bin/env bash
# Measures what the overlap of encoding and prefill is worth and says PASS or FAIL for each claim:
#
#   scripts/bench_overlap.sh [RSERVE_BINARY] [WORK_FOLDER]
#
#   1. TP1+E1, one request of 8 pictures whose encoding and prefill take about as long as each
#      other: TTFT of rserve at most 0.65 of epd's (median of 7).
#   2. The same: at most 1.07 of the critical-path bound. Where encoding takes three times the
#      prefill, and a third: what it is, without a claim.
#   3. TP1+E1, 16 such requests at once: throughput of rserve not below epd's.
#   4. PP4+E1 with a stand-in of known durations: throughput of rserve at least 1.25 of
#      rserve_intra's.
#   5. One request of 64 pictures under an embedding budget of 4 pictures: it finishes, and the peak
#      of live embedding bytes stays within the budget.
#
# Needs two cores that nothing else uses, and python3. Exits with 1 when a claim fails.

set -euo pipefail

root="$(cd "$(dirname "$0")/.." && pwd)"
rserve="${1:-$root/build/release/bin/rserve}"
work="${2:-$(mktemp -d)}"
mkdir -p "$work"
[ $# -ge 2 ] || trap 'rm -rf "$work"' EXIT

# The language model and the vision tower are sized so that 8 pictures of 448x448 (256 tokens each)
# take about as long to encode as the prompt takes to prefill; 16 of its 2144 tokens are text after
# the last picture. A chunk of 288 tokens holds a picture with the text around it.
make_model() {  # NAME LAYERS VISION_LAYERS
  [ -e "$work/$1/model.safetensors" ] ||
    "$rserve" make-model "$work/$1" --preset 3b --hidden 512 --layers "$2" --intermediate 2432 \
      --vocab 2048 --vision-hidden 512 --vision-layers "$3" --max-positions 8192
}
model="$work/overlap-model"
make_model overlap-model 6 2
make_model encode-long 6 7
make_model prefill-long 18 2
request=(--images 8 --image-size 448x448 --text-tokens 64 --trailing-text-tokens 16)
overlap=(--topology TP1+E1 --encode-batch 1 --token-budget 288)

"$rserve" bench "$model" --requests 1 "${request[@]}" "${overlap[@]}" --repeat 7 \
  --schemes rserve,epd,epd:all,colocated --json "$work/one.json"
echo
for name in encode-long prefill-long; do
  "$rserve" bench "$work/$name" --requests 1 "${request[@]}" "${overlap[@]}" --repeat 3 \
    --schemes rserve,epd --json "$work/$name.json"
  echo
done
"$rserve" bench "$model" --requests 16 "${request[@]}" "${overlap[@]}" --repeat 3 \
  --schemes rserve,epd,colocated --json "$work/sixteen.json"
echo
"$rserve" bench - --executor timed --topology PP4+E1 --requests 32 --images 4 \
  --image-size 448x448 --text-tokens 256 --trailing-text-tokens 16 --encode-batch 256 \
  --token-budget 512 --encode-ms-per-item 10 --stage-ms-per-chunk 20 --repeat 3 \
  --schemes rserve,rserve_intra,epd --json "$work/timed.json"
echo

# 64 tokens a picture, 512 floats a token: 128 KiB a picture.
"$rserve" bench "$model" --requests 1 --images 64 --image-size 224x224 --text-tokens 64 \
  --trailing-text-tokens 16 "${overlap[@]}" --repeat 1 --schemes rserve \
  --embedding-bytes 524288 --json "$work/memory.json"
echo

python3 - "$work" <<'PY'
import json, sys

work = sys.argv[1]
one, sixteen, timed, memory, encode_long, prefill_long = (
    json.load(open(f"{work}/{name}.json"))
    for name in ("one", "sixteen", "timed", "memory", "encode-long", "prefill-long"))


def ratio(report, to, key):
    return next(r[key] for r in report["ratios"] if r["to"] == to)


for report in (one, encode_long, prefill_long):
    solo = report["solo"]
    print(f"      1 request, {report['workload']['trailing_text_tokens']} of "
          f"{report['workload']['prompt_tokens']} tokens after the last picture: encode "
          f"{solo['encode_ms']:.0f} ms, prefill {solo['prefill_ms']:.0f} ms; TTFT rserve / epd "
          f"{ratio(report, 'epd', 'ttft'):.2f}, rserve / bound {report['runs'][0]['ttft_to_bound']:.2f}")
claims = [
    ("TP1+E1, 1 request: TTFT rserve / epd", ratio(one, "epd", "ttft"), "<=", 0.65),
    ("TP1+E1, 1 request: TTFT rserve / bound", one["runs"][0]["ttft_to_bound"], "<=", 1.07),
    ("TP1+E1, 16 requests: throughput rserve / epd", ratio(sixteen, "epd", "tokens_per_s"), ">=", 1.00),
    ("PP4+E1 timed: throughput rserve / rserve_intra", ratio(timed, "rserve_intra", "tokens_per_s"), ">=", 1.25),
]
failed = 0
for name, value, sign, limit in claims:
    good = value <= limit if sign == "<=" else value >= limit
    failed += not good
    print(f"{'PASS' if good else 'FAIL'}  {name:<48} {value:.3f} {sign} {limit:.2f}")
peak, budget = memory["runs"][0]["peak_embedding_bytes"], 524288
failed += peak > budget
print(f"{'PASS' if peak <= budget else 'FAIL'}  64 pictures, budget of 4: peak embedding bytes"
      f"          {peak} <= {budget} (peak RSS {memory['runs'][0]['peak_rss_bytes'] >> 20} MiB)")
sys.exit(1 if failed else 0)
PY
