#!/usr/bin/env bash
# What only a real GPU can show, in parts; what they find goes to $OUT as text, JSON and Markdown.
#   run_all.sh [PART...]     without any: course compare measure record modes networks repeat
#   course    every lesson solved and unsolved, each known mistake and right answer; seconds, GPU memory
#   compare   pretended against real source; kernels of learners; facts of a live GPU
#   measure   clocks, races, modes, hostile submissions: alone on a GPU
#   record    assets/recorded anew but for the modes, and which facts moved
#   modes     the table of modes anew, in its order, as far as the time goes: at least decode and prefill
#   networks  the rest of that table, beside what modes put there; and which facts moved
#   repeat    solved lessons, each check 20 times, while another process keeps the GPU busy
#   two       with two GPUs: lesson 6 and the capstone over NCCL, placements, parameters
# Each fits into ten minutes on 16 cores and an H200. GPUS="0 1" spreads them over two.
set -u
cd "$(dirname "$0")/../.."
: "${OUT:=$PWD/work/gpu}" "${GPUS:=${CUDA_VISIBLE_DEVICES:-0}}"
export OUT PYTHONPATH="$PWD:${PYTHONPATH:-}" PYTHONUNBUFFERED=1 COLUMNS=160
cores=$(nproc)
many=$((cores < 8 ? 8 : cores))
read -r -a gpus <<<"$GPUS"
status=0
mkdir -p "$OUT"

tests() { # NAME FILE [pytest option...]: its tests, with a report and a cache of their own
  local name=$1 file=$2
  shift 2
  mkdir -p "$OUT/parts/$name"
  OUT=$OUT/parts/$name TORCHINDUCTOR_CACHE_DIR=$(mktemp -d) timeout "${PART_SECONDS:-400}" python3 -m pytest \
    "tests/gpu/$file" -m gpu --require-gpu -q --tb=short -p no:cacheprovider -p no:logging -o addopts="" -o timeout=0 \
    -W ignore --durations=5 "$@" >"$OUT/parts/$name/tests.txt" 2>&1
}

on() { # NUMBER COMMAND...: on one GPU of those there are, in turn
  local number=$1
  shift
  CUDA_VISIBLE_DEVICES=${gpus[$((number % ${#gpus[@]}))]} "$@"
}

each() { # FUNCTION FUNCTION: one after the other; with two GPUs each on its own, with half of the cores
  if [ ${#gpus[@]} = 1 ]; then
    on 0 "$1" && on 0 "$2"
    return
  fi
  local number started=()
  for number in 0 1; do
    (
      shift $number
      taskset -cp "$((number * cores / 2))-$(((number + 1) * cores / 2 - 1))" $BASHPID >/dev/null
      on $number "$1"
      exit $status
    ) &
    started+=($!)
  done
  ended "${started[@]}"
}

ended() { for job in "$@"; do wait "$job" || status=1; done; }

course() {
  python3 tests/gpu/course.py -o "$OUT/course" --jobs $((many / 4)) --more-jobs $((many - 2)) --gpus "${gpus[@]}" ||
    status=1
}

compare() {
  local started=() number=0 lesson name shard
  for lesson in solutions/[0-9]*/*.py; do
    name=$(basename "$lesson" .py)
    on $number tests "$name" test_lessons_on_a_pretended_gpu.py -k "$name" &
    started+=($!) number=$((number + 1))
  done
  for shard in 0 1 2 3; do
    on $number tests "functions-$shard" test_pretended_equals_real.py --shard "$shard/4" &
    started+=($!) number=$((number + 1))
  done
  for name in kernels_of_learners live_gpu_facts a_real_gpu_beside_a_pretended_one; do
    on $number tests "$name" "test_$name.py" &
    started+=($!) number=$((number + 1))
  done
  ended "${started[@]}"
}

hostile() { tests hostile test_hostile_on_a_gpu.py || status=1; } # it takes all of the memory: nobody else may need it

clocks() { for name in timing races modes; do tests "clock-$name" "test_${name}_on_a_gpu.py" || status=1; done; }

measure() { each clocks hostile; }

again() { # OPTIONS...: recordings, one after the other
  mkdir -p "$OUT/recorded"
  on 0 python3 -m compilescope.recorded --out "$OUT/recorded" "$@" >"$OUT/recorded-$part-$1.txt" 2>&1 || status=1
}

which_moved() { python3 -m compilescope.recorded_moved assets/recorded "$OUT/recorded" | tee "$OUT/moved.txt"; }

record() {
  again cuda_graphs relu_chain softmax_and_matmul
  again depth --rounds assets/recorded/depth.json --anew --seconds 330
  which_moved
}

anew() { # FILE [OPTION...]: the table of modes, beside what is in FILE
  again modes --rounds "$1" --anew --seconds 500 --longest 250 "${@:2}"
}

modes() { anew assets/recorded/modes.json; }

networks() {
  local known=$OUT/recorded/modes.json
  [ -f "$known" ] || known=assets/recorded/modes.json
  anew "$known" \
    --only "pointwise chain" "small network" "changing batch" "mutated input" "fp32 highest" "fp32 high" "fp32 medium" bf16
  which_moved
}

repeat() { # 20 verdicts of each check: the lessons whose checks start processes in more notebooks, with fewer checks each
  local each=$((many / 8))
  on 0 python3 tests/repeat.py --busy 0 --times 4 --checks 5 --jobs $((3 * each)) -o "$OUT/repeat.md" \
    01_basic_compile 02_timing 03_graph_breaks 04_guards 05_modes >"$OUT/repeat.txt" 2>&1 &
  on 1 python3 tests/repeat.py --busy 0 --times 10 --checks 2 --jobs $((5 * each)) -o "$OUT/repeat-6-to-8.md" \
    06_distributed 07_regional 08_capstone >"$OUT/repeat-6-to-8.txt" 2>&1 &
  ended $(jobs -p)
  cat "$OUT"/repeat*.md
}

two() { # first what measures, alone
  CUDA_VISIBLE_DEVICES=0,1 timeout 150 python3 benchmarks/placements.py -o "$OUT/placements.json" --limit 140 || status=1
  CUDA_VISIBLE_DEVICES=0,1 python3 tests/gpu/course.py -o "$OUT/course-nccl" --jobs 2 --more-jobs 6 --limit 250 \
    --gpus 0,1 --parts solved exercises -- 06_distributed 08_capstone >"$OUT/course-nccl.txt" 2>&1 &
  CUDA_VISIBLE_DEVICES=0,1 tests two_gpus test_two_gpus.py --require-two-gpus &
  ended $(jobs -p)
  cat "$OUT/course-nccl/course.md"
}

[ $# -gt 0 ] || set -- course compare measure record modes networks repeat
for part in "$@"; do
  began=$SECONDS
  case $part in
    course | compare | measure | record | modes | networks | repeat | two) "$part" ;;
    *) echo "no part $part" && exit 2 ;;
  esac
  echo "== $part: $((SECONDS - began)) s"
done
if [ -d "$OUT/parts" ]; then
  tail -n 3 "$OUT"/parts/*/tests.txt
  python3 tests/gpu/table.py "$OUT"/parts/*/gpu_report.json | tee "$OUT/gpu_report.md"
fi
exit $status
