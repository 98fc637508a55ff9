#!/usr/bin/env bash
# Everything that needs a GPU, as one prepared command.
#   scripts/gpu_check.sh prepare            builds build/gpu_check (here; needs nvcc, no GPU)
#   scripts/gpu_check.sh run [--out DIR]    runs it (there; needs a driver, libcublasLt and python3)
#   scripts/gpu_check.sh run --dry [--bin DIR] [--out DIR]
#                                           the same steps over the emulated programs (here)
# build/gpu_check/bin holds programs that need nothing but the C library, CUDA's own libraries and the
# driver, which `prepare` checks. `run` writes report.json and report.md, whatever it finds, and fails if
# a step failed.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  sed -n '2,9p' "$0" | sed 's/^# \{0,1\}//' >&2
  exit 2
}

limit_mib=60  # of the bundle and the working tree together
build=build/gpu
bundle=build/gpu_check

# The libraries that a program may ask of the machine: the C library's and cuBLASLt. (The driver, NCCL
# and cuDNN are opened by those that want them.)
may_need='^(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libcublasLt)\.so\.[0-9]+$'

# check_self_contained FILE...: fails, naming them, when there are others.
check_self_contained() {
  local file others bad=0
  for file in "$@"; do
    others=$(readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' |
      grep -vE "$may_need" || true)
    if [ -n "$others" ]; then
      echo "$file needs" $others >&2
      bad=1
    fi
  done
  [ "$bad" -eq 0 ] || exit 1
  echo "self-contained; the newest symbols of the C library: $(objdump -T "$@" 2>/dev/null |
    grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)"
}

prepare() {
  local programs=(kernels_gpu_test backend_gpu_test engine_gpu_test rserve_gpu_bench rserve_gpu)
  # The same on the host, for `run --dry`; they stay here.
  local emulated=(kernels_cuda_test backend_cuda_test engine_cuda_test rserve_gpu_bench_dry
    rserve_gpu_dry)
  rm -f "$build/CMakeCache.txt"  # it may remember shared libraries
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DRSERVE_CUDA=ON -DRSERVE_TESTS=ON \
    -DRSERVE_STATIC_DEPENDENCIES=ON >/dev/null
  cmake --build "$build" --target "${programs[@]}" "${emulated[@]}"
  rm -rf "$bundle/bin"
  mkdir -p "$bundle/bin"
  local name
  for name in "${programs[@]}"; do strip -o "$bundle/bin/$name" "$build/tests/$name"; done
  check_self_contained "$bundle"/bin/*
  local size tree
  size=$(du -sm "$bundle" | cut -f1)
  tree=$( (git ls-files -z; git ls-files -z -o --exclude-standard) | du -cm --files0-from=- |
    tail -n 1 | cut -f1)
  echo "bundle $size MiB, working tree $tree MiB"
  if [ $((size + tree)) -gt "$limit_mib" ]; then
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

# schemes COMMAND GPUS SHAPE... -- LOAD...: on a made-up model, colocated, epd and rserve on one
# GPU with each way of sharing it, and rserve with embeddings through the host; where there are more,
# two stages on two of them with each hand-over.
schemes() {
  local command=$1 gpus=$2 shape=() way
  shift 2
  while [ "$1" != -- ]; do shape+=("$1"); shift; done
  shift
  step model 120 "$command" make-model "$scratch/model" "${shape[@]}"
  for way in streams turns parts; do
    step "schemes_$way" 60 "$command" bench "$scratch/model" --backend cuda \
      --device-sharing "$way" --schemes rserve,epd,colocated --json "$out/schemes_$way.json" "$@"
  done
  step embeddings_host 60 "$command" bench "$scratch/model" --backend cuda \
    --no-device-embeddings --schemes rserve --json "$out/embeddings_host.json" "$@"
  [ "$gpus" -ge 2 ] || return 0
  for way in peer nccl host; do
    step "handover_$way" 60 "$command" bench "$scratch/model" --backend cuda \
      --stage-handover "$way" --topology PP2+E1 --devices 0,1,0 --schemes rserve,epd \
      --json "$out/handover_$way.json" "$@"
  done
}

run() {
  local dry=no bin= out=$bundle/report scratch
  while [ $# -gt 0 ]; do
    case "$1" in
      --dry) dry=yes; shift ;;
      --bin) bin=$2; shift 2 ;;
      --out) out=$2; shift 2 ;;
      *) usage ;;
    esac
  done
  [ -n "$bin" ] || bin=$([ "$dry" = yes ] && echo "$build/tests" || echo "$bundle/bin")
  mkdir -p "$out"
  rm -f "$out"/*.txt "$out"/*.json "$out"/report.*
  : >"$out/steps.txt"
  scratch=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$scratch'" EXIT
  if [ "$dry" = yes ]; then
    step kernels 60 "$bin/kernels_cuda_test"
    step golden 60 "$bin/backend_cuda_test" "CUDA: prompts share*"
    step engine 60 "$bin/engine_cuda_test" "CUDA engine: many requests*"
    step bench 60 "$bin/rserve_gpu_bench_dry"
    schemes "$bin/rserve_gpu_dry" 2 --layers 2 --hidden 64 --heads 2 --kv-heads 1 \
      --intermediate 64 --vocab 1280 --vision-layers 1 --vision-hidden 32 --vision-heads 2 \
      --vision-intermediate 32 -- \
      --requests 2 --images 1 --image-size 56x56 --text-tokens 8 --trailing-text-tokens 8 \
      --kv-tokens 512 --encoder-batch-tokens 256 --token-budget 64 --repeat 1 --warmup 0
    if python3 -c 'import torch, transformers' 2>/dev/null; then
      step reference 120 python3 scripts/gpu_reference.py --dry
    fi
  else
    # These lie with CUDA, or with the packages of a Python that uses them; only the first is needed.
    local name found
    for name in libcublasLt.so.13 libcudnn.so.9 libnccl.so.2; do
      found=$(find /usr/local/cuda*/lib64/ /usr/lib /usr/local/lib /opt -name "$name" \
        2>/dev/null | head -n 1 || true)
      [ -z "$found" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$found")"
    done
    step device 20 nvidia-smi --format=csv,noheader \
      --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,power.limit
    # Launches are over when they return, so that tests may look at managed memory.
    step kernels 60 env CUDA_LAUNCH_BLOCKING=1 "$bin/kernels_gpu_test"
    step golden 60 "$bin/backend_gpu_test"
    # The golden prompts through the engine, pictures against the CPU, 200 requests with cancels.
    step engine 60 "$bin/engine_gpu_test"
    if command -v compute-sanitizer >/dev/null; then
      step sanitizer 60 env CUDA_LAUNCH_BLOCKING=1 compute-sanitizer --error-exitcode 1 \
        "$bin/kernels_gpu_test" "attention refuses*,RMSNorm agrees*,paged causal*"
    fi
    step bench 150 "$bin/rserve_gpu_bench"
    # The 7B model's widths at a quarter of its depth: the same kernels, a file of 6 GB.
    schemes "$bin/rserve_gpu" "$(nvidia-smi -L | grep -c '^GPU' || true)" --preset 7b --layers 7 --vision-layers 8 --max-pixels 802816 -- \
      --requests 8 --images 8 --image-size 896x896 --trailing-text-tokens 256 --token-budget 2048 \
      --encode-batch 2048 --kv-tokens 98304 --embedding-bytes 2G --pixel-bytes 4G \
      --encoder-batch-tokens 8192 --media-threads 8 --repeat 2
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
