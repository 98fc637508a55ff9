#!/usr/bin/env bash
# What ptxas says of every CUDA kernel: registers, spills, barriers. Needs nvcc and c++filt.
#   scripts/ptxas_report.sh > docs/cuda-ptxas.txt
set -euo pipefail
cd "$(dirname "$0")/.."

objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
nvcc --version | tail -n 2 | head -n 1
for arch in 80 90; do
  echo
  echo "sm_$arch  registers  stack  spill stores  spill loads  kernel"
  for source in kernels/*/*_cuda.cu; do
    nvcc -std=c++20 -O3 -I. -gencode "arch=compute_$arch,code=sm_$arch" -Xptxas -v \
      -c "$source" -o "$objects/out.o" 2>&1
  done | c++filt | awk '
    /Compiling entry function/ { split($0, part, "\047"); name = part[2] }
    /bytes stack frame/ { stack = $1; stores = $5; loads = $9 }
    /Used .* registers/ {
      for (i = 1; i < NF; ++i) if ($i == "Used") registers = $(i + 1)
      gsub(/rserve::kernels::cuda::/, "", name); sub(/\(.*/, "", name); sub(/^void /, "", name)
      printf "%16d %6d %13d %12d  %s\n", registers, stack, stores, loads, name
    }' | sort -k5
done
