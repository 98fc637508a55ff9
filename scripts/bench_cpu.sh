#!/usr/bin/env bash
# Measures the CPU kernels, encode and prefill beside the FMA peak of the machine and says PASS or
# FAIL for each claim:
#
#   scripts/bench_cpu.sh [RSERVE_BINARY] [WORK_FOLDER]
#
# With two threads, shapes of Qwen2.5-VL-3B, 4 layers and 8 vision blocks:
#
#   1. products of a layer and of a vision block: share of the peak at 512 (1024), 64 and 16 rows;
#   2. encode of 448x448 and 896x896, prefill of 512 and 2048 tokens, whole and in chunks of 256:
#      share of the peak, and how much faster two threads are than one;
#   3. int8 beside f16, prefill of 512 tokens;
#   4. peak memory of the whole model (36 layers, bf16) with a KV cache of 4096 tokens.
#
# Shares and speeds are medians of the runs in which no core had a busy neighbour ("alone" in
# `rserve bench kernels --help`); each line says of how many, and the median of all runs. On a machine
# without AVX-512 the peak is another one and so may the shares be. Needs two cores, 24 GiB of memory,
# 10 GB in WORK_FOLDER, and python3; takes ten minutes on a quiet machine and longer on another.
# Exits with 1 when a claim fails.

set -euo pipefail

root="$(cd "$(dirname "$0")/.." && pwd)"
rserve="${1:-$root/build/release/bin/rserve}"
work="${2:-$(mktemp -d)}"
mkdir -p "$work"
[ $# -ge 2 ] || trap 'rm -rf "$work"' EXIT

model() {  # NAME OPTION...
  local folder="$work/$1"
  shift
  [ -e "$folder/model.safetensors" ] || "$rserve" make-model "$folder" --preset 3b "$@"
}
model f16 --layers 4 --vision-layers 8 --dtype f16
model whole --dtype bf16

"$rserve" bench kernels --threads 2 --ops product --weights f32,f16,bf16 --rows 16,64,512 \
  --repeat 5 --alone 5 --json "$work/kernels.json"
echo
"$rserve" bench model "$work/f16" --threads 1,2 --images 448x448 --prompts 512 --chunks all,256 \
  --repeat 5 --alone 3 --json "$work/short.json"
echo
"$rserve" bench model "$work/f16" --threads 1,2 --images 896x896 --prompts 2048 --chunks all,256 \
  --repeat 3 --alone 1 --json "$work/long.json"
echo
"$rserve" bench model "$work/f16" --threads 2 --images none --prompts 512 --weights int8 \
  --repeat 5 --alone 3 --json "$work/int8.json"
echo
"$rserve" bench model "$work/whole" --threads 2 --images none --prompts 512 --kv-tokens 4096 \
  --repeat 1 --json "$work/whole.json"
echo

python3 - "$work" <<'PY'
import json, sys

work = sys.argv[1]
kernels, short, long, int8, whole = (
    json.load(open(f"{work}/{name}.json")) for name in ("kernels", "short", "long", "int8", "whole"))
failed = 0


def claim(name, value, sign, limit, note=""):
    global failed
    good = value is not None and (value <= limit if sign == "<=" else value >= limit)
    failed += not good
    shown = "never alone" if value is None else f"{value:.3f}"
    print(f"{'PASS' if good else 'FAIL'}  {name:<52} {shown} {sign} {limit:.2f}  {note}")


def products(weights, group, rows):
    """Share of the peak of all products of a group together, runs alone and all runs."""
    cases = [c for c in kernels["cases"] if c["weights"] == weights and c["group"] == group
             and c["rows"] in rows]
    flop = sum(c["gflops"] * c["seconds"] for c in cases)
    everything = flop / sum(c["gflops"] * c["seconds"] / c["share_of_fma"] for c in cases)
    runs = min(c["alone"]["repeats"] for c in cases)
    alone = runs and flop / sum(c["gflops"] * c["seconds"] / c["alone"]["share_of_fma"] for c in cases)
    return alone or None, f"{runs} of {cases[0]['repeats']}; all runs {everything:.3f}"


def run(report, kind, threads, **wanted):
    return next(r for r in report[kind] if r["threads"] == threads
                and all(r[key] == value for key, value in wanted.items()))


def share(name, limit, one):
    alone = one["alone"]
    claim(f"{name}: of the peak", alone.get("share_of_fma"), ">=", limit,
          f"{alone['repeats']} of {one['repeats']}; all runs {one['share_of_fma']:.3f}")


def speedup(name, one, two):
    """Of two threads over one: `speedup` is over the first row, so a ratio where that is another."""
    value = two["alone"].get("speedup")
    base = one["alone"].get("speedup")
    claim(f"{name}: 2 threads over 1", value / base if value and base else None, ">=", 1.85,
          f"all runs {two['speedup'] / one['speedup']:.2f}")


for weights, limit in (("f32", 0.83), ("f16", 0.83), ("bf16", 0.80)):
    for name, group, rows, least in (("layer, 512 rows", "prefill", (512,), limit),
                                     ("vision block and merger, 1024", "encode", (1024, 256), limit),
                                     ("layer, 64 rows", "prefill", (64,), 0.65),
                                     ("layer, 16 rows", "prefill", (16,), 0.35)):
        value, note = products(weights, group, rows)
        claim(f"products {weights}, {name}: of the peak", value, ">=", least, note)
for report, width, prompt, least in ((short, 448, 512, 0.80), (long, 896, 2048, 0.75)):
    one, two = (run(report, "encode", threads, width=width) for threads in (1, 2))
    share(f"encode {width}x{width} f16", 0.71, two)
    speedup(f"encode {width}x{width} f16", one, two)
    whole_prompt = run(report, "prefill", 2, tokens=prompt, chunk=prompt)
    share(f"prefill {prompt} f16", least, whole_prompt)
    chunked = run(report, "prefill", 2, tokens=prompt, chunk=256)
    for chunk in (prompt, 256):
        one, two = (run(report, "prefill", threads, tokens=prompt, chunk=chunk) for threads in (1, 2))
        speedup(f"prefill {prompt} f16 in chunks of {chunk}", one, two)
    both = [r["alone"].get("share_of_fma") for r in (whole_prompt, chunked)]
    claim(f"prefill {prompt} f16: time in chunks of 256 / whole", both[0] / both[1] if all(both) else None,
          "<=", 1.08, f"all runs {whole_prompt['share_of_fma'] / chunked['share_of_fma']:.2f}")
pair = [run(r, "prefill", 2, tokens=512, chunk=512)["alone"].get("share_of_fma") for r in (short, int8)]
claim("prefill 512: int8 over f16", pair[1] / pair[0] if all(pair) else None, ">=", 1.35)
parts = whole["load"]["weight_bytes"] + whole["kv_bytes"]
claim("whole model: peak memory / weights and KV cache", whole["peak_rss_bytes"] / parts, "<=", 1.15,
      f"{whole['peak_rss_bytes'] / 2**30:.2f} GiB")
sys.exit(1 if failed else 0)
PY
