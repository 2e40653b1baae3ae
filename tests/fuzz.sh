#!/usr/bin/env bash
# Runs every fuzz target for a number of executions. It needs a C++ compiler, and neither cargo-fuzz nor a nightly toolchain.
#
#   tests/fuzz.sh                       a million of each
#   tests/fuzz.sh --count 20000000      more of each
#   tests/fuzz.sh --only wire,sync      some targets
#   tests/fuzz.sh --seed 7              the same inputs again
#   tests/fuzz.sh --list
#
# CARGO names the cargo to call. What it finds is left in target/fuzz/TARGET; input that fails, in target/fuzz/failures.
set -euo pipefail
cd "$(dirname "$0")/.."
count=1000000 only= seed=$RANDOM
targets() { for file in fuzz/fuzz_targets/*.rs; do basename "$file" .rs; done; }
while [ $# -gt 0 ]; do
  case "$1" in
    --count) count=$2; shift 2 ;;
    --only) only=,$2,; shift 2 ;;
    --seed) seed=$2; shift 2 ;;
    --list) targets; exit ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done

# What cargo-fuzz asks for: counters for each edge, and comparisons. Debug assertions and overflow checks are on.
llvm() { printf ' -Cllvm-args=-sanitizer-coverage-%s' "$@"; }
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module$(llvm level=4 inline-8bit-counters pc-table trace-compares) -Cdebug-assertions -Coverflow-checks"
host=$(rustc -vV | sed -n 's/^host: //p')
"${CARGO:-cargo}" build --release --manifest-path fuzz/Cargo.toml --target "$host" --target-dir target/fuzz/build

passed=0 failed=0
mkdir -p target/fuzz/failures
for target in $(targets); do
  [ -z "$only" ] || [[ "$only" == *",$target,"* ]] || continue
  mkdir -p "target/fuzz/$target"
  log=target/fuzz/$target.log status=0
  "target/fuzz/build/$host/release/$target" -runs="$count" -seed="$seed" -rss_limit_mb=1024 -timeout=20 \
    -print_final_stats=1 -artifact_prefix=target/fuzz/failures/ "target/fuzz/$target" "fuzz/corpus/$target" >"$log" 2>&1 || status=$?
  stat() { sed -n "s/^stat::$1: *//p" "$log" | tail -n 1; }
  if [ "$status" = 0 ]; then passed=$((passed + 1)) bad=0; else failed=$((failed + 1)) bad=1; fi
  echo "harness fuzz-$target: $(stat number_of_executed_units) executions, $bad failed, seed $seed ($(stat average_exec_per_sec) a second)"
  [ "$bad" = 0 ] || grep -E 'panicked|ERROR|SUMMARY|Test unit' "$log" | head -n 5
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
