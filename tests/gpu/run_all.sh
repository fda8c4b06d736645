#!/usr/bin/env bash
# All GPU tests, and the recordings; what they found goes to $OUT as text, JSON and Markdown.
# First what compares code, all at once, each lesson in a process of its own (four minutes on 16 cores); then, alone, what
# measures (five more). MEASURE=0 stops after the first.
set -u
cd "$(dirname "$0")/../.."
: "${OUT:=.}"
export PYTHONPATH="$PWD:${PYTHONPATH:-}" TORCHINDUCTOR_CACHE_DIR="${TORCHINDUCTOR_CACHE_DIR:-$OUT/inductor-cache}"
parts=$OUT/parts
status=0

part() { # NAME FILE [pytest option...]: its tests, their report in a folder of its own
  local name=$1 file=$2
  shift 2
  mkdir -p "$parts/$name"
  OUT=$parts/$name timeout "${PART_SECONDS:-330}" python -m pytest "tests/gpu/$file" -m gpu --require-gpu -q --tb=short \
    -p no:cacheprovider -p no:logging -o addopts="" -o timeout=0 -W ignore "$@" >"$parts/$name/tests.txt" 2>&1
}

together=(test_pretended_equals_real.py test_kernels_of_learners.py test_lessons_on_a_pretended_gpu.py)
for lesson in solutions/[0-9]*/*.py; do
  name=$(basename "$lesson" .py)
  part "$name" "${together[2]}" -k "$name" &
done
for file in "${together[@]:0:2}"; do part "$(basename "$file" .py)" "$file" & done
for job in $(jobs -p); do wait "$job" || status=1; done

if [ "${MEASURE:-1}" = 1 ]; then
  for path in tests/gpu/test_*.py; do
    file=$(basename "$path")
    [[ " ${together[*]} " == *" $file "* ]] || part "$(basename "$file" .py)" "$file" || status=1
  done
  python -m compilescope.recorded --out "$OUT/recorded" >"$parts/recorded.txt" 2>&1 || status=1
fi
rm -rf "$OUT/inductor-cache"
tail -n 3 "$parts"/*/tests.txt
python tests/gpu/table.py "$parts"/*/gpu_report.json | tee "$OUT/gpu_report.md"
exit $status
