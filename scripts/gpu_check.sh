#!/usr/bin/env bash
# Everything that needs a GPU, as one prepared command.
#   scripts/gpu_check.sh prepare            builds build/gpu_check/bin (here; needs nvcc, no GPU)
#   scripts/gpu_check.sh run [--out DIR]    runs it (there; needs a driver, libcublasLt and python3)
#   scripts/gpu_check.sh run --dry --bin DIR [--out DIR]
#                                           the same steps over the emulated programs in DIR
# `run` writes report.json and report.md, whatever it finds, and fails if a step failed.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  sed -n '2,8p' "$0" | sed 's/^# \{0,1\}//' >&2
  exit 2
}

limit_mib=60  # of the bundle and the working tree together

prepare() {
  local build=build/gpu programs=(kernels_gpu_test backend_gpu_test rserve_gpu_bench)
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DRSERVE_CUDA=ON -DRSERVE_TESTS=ON \
    >/dev/null
  cmake --build "$build" --target "${programs[@]}"
  mkdir -p build/gpu_check/bin
  for program in "${programs[@]}"; do
    strip -o "build/gpu_check/bin/$program" "$(find "$build" -type f -name "$program" | head -n 1)"
  done
  local bundle tree
  bundle=$(du -sm build/gpu_check | cut -f1)
  tree=$( (git ls-files -z; git ls-files -z -o --exclude-standard) | du -cm --files0-from=- |
    tail -n 1 | cut -f1)
  echo "bundle $bundle MiB, working tree $tree MiB"
  if [ $((bundle + tree)) -gt "$limit_mib" ]; then
    echo "together more than $limit_mib MiB" >&2
    exit 1
  fi
}

# step NAME SECONDS COMMAND...: runs it, keeps its output and how it ended.
failed=0
step() {
  local name=$1 limit=$2 rc=0 begin
  shift 2
  begin=$(date +%s)
  timeout "$limit" "$@" >"$out/$name.txt" 2>&1 || rc=$?
  echo "$name $rc $(($(date +%s) - begin))" >>"$out/steps.txt"
  echo "$name: $([ "$rc" -eq 0 ] && echo passed || echo "failed ($rc)")"
  [ "$rc" -eq 0 ] || failed=1
}

run() {
  local dry=no bin=build/gpu_check/bin out=build/gpu_check/report
  while [ $# -gt 0 ]; do
    case "$1" in
      --dry) dry=yes; shift ;;
      --bin) bin=$2; shift 2 ;;
      --out) out=$2; shift 2 ;;
      *) usage ;;
    esac
  done
  mkdir -p "$out"
  rm -f "$out"/*.txt "$out"/report.*
  : >"$out/steps.txt"
  if [ "$dry" = yes ]; then
    step kernels 60 "$bin/kernels_cuda_test"
    step golden 60 "$bin/backend_cuda_test" "CUDA: prompts share*"
    step bench 60 "$bin/rserve_gpu_bench_dry"
  else
    # cuBLASLt lies with CUDA, or with the packages of a Python that uses it.
    local found
    found=$(find /usr/local/cuda*/lib64 /usr/lib /usr/local/lib /opt -name 'libcublasLt.so.13' \
      2>/dev/null | head -n 1 || true)
    [ -z "$found" ] || export LD_LIBRARY_PATH="$(dirname "$found"):${LD_LIBRARY_PATH:-}"
    step device 20 nvidia-smi --format=csv,noheader \
      --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,power.limit
    # Launches are over when they return, so that tests may look at managed memory.
    step kernels 60 env CUDA_LAUNCH_BLOCKING=1 "$bin/kernels_gpu_test"
    step golden 60 "$bin/backend_gpu_test"
    if command -v compute-sanitizer >/dev/null; then
      step sanitizer 60 env CUDA_LAUNCH_BLOCKING=1 compute-sanitizer --error-exitcode 1 \
        "$bin/kernels_gpu_test" "attention refuses*,RMSNorm agrees*,paged causal*"
    fi
    step bench 120 "$bin/rserve_gpu_bench"
    if python3 -c 'import torch, transformers; assert torch.cuda.is_available()' 2>/dev/null; then
      step reference 120 python3 scripts/gpu_reference.py
    fi
  fi
  python3 scripts/gpu_report.py "$out" "$dry"
  cat "$out/report.md"
  return "$failed"
}

case "${1:-}" in
  prepare) [ $# -eq 1 ] || usage; prepare ;;
  run) shift; run "$@" ;;
  *) usage ;;
esac
