#!/usr/bin/env bash
# Breaks the program in the ways that mutants.txt lists, one at a time, and checks that a test notices.
#
#   tests/mutants.sh                every mutation
#   tests/mutants.sh sync hash      those whose name contains one of the words
#   tests/mutants.sh --list         what there is
#
# It works in a copy of the tree below target/mutants, with a target directory of its own. CARGO names the cargo to call.
set -euo pipefail
cd "$(dirname "$0")/.."
list=$PWD/tests/mutants.txt
names() { sed -n 's/^@ //p' "$list"; }
[ "${1:-}" != --list ] || { names; exit; }

tree=$PWD/target/mutants/tree
export CARGO_TARGET_DIR=$PWD/target/mutants/target
mkdir -p "$tree"
log=$PWD/target/mutants/log; : >"$log"

copy() { git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --preserve=timestamps -u -t "$tree"; }

# [VAR=VALUE ...] PACKAGE TARGET FILTER
run_test() {
  local words=($1) settings=()
  while [[ "${words[0]}" == *=* ]]; do settings+=("${words[0]}"); words=("${words[@]:1}"); done
  local where=(--test "${words[1]}"); [ "${words[1]}" != lib ] || where=(--lib)
  (cd "$tree" && env "${settings[@]}" timeout 900 "${CARGO:-cargo}" test -p "${words[0]}" "${where[@]}" "${words[2]:-}") >>"$log" 2>&1
}

copy
noticed=0 missed=0
while IFS= read -r line; do
  [[ "$line" == "@ "* ]] || continue
  name=${line#@ }
  IFS= read -r file; IFS= read -r from; IFS= read -r to; IFS= read -r test
  if [ $# -gt 0 ]; then
    wanted=; for word in "$@"; do [[ "$name" != *"$word"* ]] || wanted=1; done
    [ -n "$wanted" ] || continue
  fi
  echo "== $name" >>"$log"
  if ! FROM=$from TO=$to perl -0pi -e 's/\Q$ENV{FROM}\E/$ENV{TO}/ or die "the text is not there\n"' "$tree/$file" 2>>"$log"; then
    verdict="GONE: $file has no such text"
  elif run_test "$test" && status=0 || status=$?; [ "$status" = 0 ]; then
    verdict="NOT NOTICED by $test"
  elif [ "$status" = 124 ]; then
    verdict="NO ANSWER in time"
  elif sed -n "/^== $name\$/,\$p" "$log" | grep -q '^error: could not compile'; then
    verdict="DOES NOT BUILD"
  else
    verdict=noticed
  fi
  [ "$verdict" = noticed ] && noticed=$((noticed + 1)) || missed=$((missed + 1))
  printf '%-66s %s\n' "$name" "$verdict"
  cp "$file" "$tree/$file"
done <"$list"
echo "$noticed noticed, $missed not"
[ "$missed" = 0 ]
