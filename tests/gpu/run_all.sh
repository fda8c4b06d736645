#!/usr/bin/env bash
# All GPU tests, and the recordings; what they found goes to $OUT as JSON and as a Markdown table. About five minutes.
set -u
cd "$(dirname "$0")/../.."
: "${OUT:=.}"
export OUT PYTHONPATH="$PWD:${PYTHONPATH:-}" TORCHINDUCTOR_CACHE_DIR="${TORCHINDUCTOR_CACHE_DIR:-$OUT/inductor-cache}"
python -m pytest tests/gpu -m gpu --require-gpu -q --tb=short -p no:cacheprovider -p no:logging -o addopts="" -o timeout=0 \
  -W ignore 2>&1 | tail -n 400 > "$OUT/gpu_tests.txt"
status=${PIPESTATUS[0]}
python tests/gpu/table.py "$OUT/gpu_report.json" > "$OUT/gpu_report.md"
python -m compilescope.recorded --out "$OUT/recorded" >> "$OUT/gpu_tests.txt" 2>&1 || status=1
rm -rf "$OUT/inductor-cache"
tail -n 15 "$OUT/gpu_tests.txt"
cat "$OUT/gpu_report.md"
exit "$status"
