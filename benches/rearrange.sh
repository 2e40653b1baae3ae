#!/usr/bin/env bash
# Measures rebase, cherry-pick, stash and stash pop beside Git, in turn, on the same data:
#
#   benches/rearrange.sh DMV DIR [FILES=100000] [COMMITS=1000] [RUNS=5]
#
# A branch has COMMITS commits of one file each, and main has ten others. DIR must not exist; it is removed at the end.
set -euo pipefail
dmv=$(readlink -f "$1") dir=$2 files=${3:-100000} commits=${4:-1000} runs=${5:-5}
mkdir -p "$dir/dmv" "$dir/git"
dir=$(readlink -f "$dir")
cd "$dir"
export HOME=$dir GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t
git() { command git -c gc.auto=0 -c advice.detachedHead=false "$@"; }
python3 - $files <<'P'
import os,sys
n=int(sys.argv[1])
for root in ("dmv","git"):
    for d in range(n//100):
        p=f"{root}/d{d:04}"; os.makedirs(p)
        for f in range(100):
            open(f"{p}/f{f:02}","w").write("".join(f"line {i} of {d}/{f}\n" for i in range(20)))
P
edit() { # root path text
  printf '%s\n' "$3" >> "$1/$2"; }
(cd git && git init -q -b main && git add -A && git commit -qm base)
(cd dmv && $dmv init -q && $dmv commit -qm base)
dirs=$((files/100))
line() { # how many, which file in each directory, message
  for ((i=0;i<$1;i++)); do p=$(printf 'd%04d/f%02d' $((i%dirs)) $2)
    edit git $p "$3 $i"; edit dmv $p "$3 $i"
    (cd git && git commit -qm "$3 $i" $p); (cd dmv && $dmv commit -qm "$3 $i" $p); done; }
(cd git && git checkout -q -b topic); (cd dmv && $dmv checkout -q -b topic)
echo "making $commits commits"; line $commits 7 topic
(cd git && git checkout -q main); (cd dmv && $dmv checkout -q main)
line 10 3 main
now() { date +%s%N; }
bench() { # name, dir, command, undo
  local t=()
  for ((r=0;r<runs;r++)); do a=$(now); (cd $2 && eval "$3" >/dev/null 2>&1) || true; b=$(now); t+=($(( (b-a)/1000000 )))
    (cd $2 && eval "$4" >/dev/null 2>&1); done
  printf '%-28s %s ms (median of %s: %s)\n' "$1" "$(printf '%s\n' ${t[@]} | sort -n | sed -n "$(( (runs+1)/2 ))p")" $runs "${t[*]}"; }
(cd git && git checkout -q topic && git status >/dev/null); (cd dmv && $dmv checkout -q topic && $dmv status >/dev/null)
bench "dmv rebase" dmv "$dmv rebase main" "$dmv undo && $dmv status"
bench "git rebase" git "git rebase -q main" "git reset -q --hard ORIG_HEAD && git status"
(cd git && git checkout -q main && git status >/dev/null); (cd dmv && $dmv checkout -q main && $dmv status >/dev/null)
# One commit with 10 files.
ten() { for ((i=0;i<10;i++)); do edit $1 $(printf 'd%04d/f%02d' $((i*7%dirs)) 50) ten; done; }
(cd git && git checkout -q -b ten); (cd dmv && $dmv checkout -q -b ten)
ten git; ten dmv; (cd git && git commit -qam ten && git checkout -q main); (cd dmv && $dmv commit -qm ten && $dmv checkout -q main && $dmv status >/dev/null)
bench "dmv cherry-pick, 10 files" dmv "$dmv cherry-pick ten" "$dmv undo && $dmv status"
bench "git cherry-pick, 10 files" git "git cherry-pick ten" "git reset -q --hard HEAD~1 && git status"
ten git; ten dmv
bench "dmv stash, 10 files" dmv "$dmv stash" "$dmv stash pop && $dmv status"
bench "git stash, 10 files" git "git stash" "git stash pop && git status"
(cd git && git stash -q); (cd dmv && $dmv stash -q)
bench "dmv stash pop, 10 files" dmv "$dmv stash pop" "$dmv stash"
bench "git stash pop, 10 files" git "git stash pop" "git stash"
cd /; rm -rf $dir
