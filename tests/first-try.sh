#!/usr/bin/env bash
# Half an hour with DMV on a system where few have used it: it tries what could differ there, in a new directory of its
# own, and prints a report. Please send the report back with what you think of it.
#
#   tests/first-try.sh DMV [DIRECTORY]      DMV is the program, DIRECTORY a place on the disk to try (else the temporary one)
#
# FILES, MIB and LARGE_MIB in the environment make it smaller. On Windows, tests/first-try.ps1 does the same. Nothing outside of the new directory is changed.
set -u
files=${FILES:-20000} mib=${MIB:-300} large_mib=${LARGE_MIB:-4200}
dmv=$(cd "$(dirname "${1:?usage: first-try.sh DMV [DIRECTORY]}")" && pwd)/$(basename "$1")
place=$(mktemp -d "${2:-${TMPDIR:-/tmp}}/dmv-first-try.XXXXXX") || exit 1
report=$place/report.txt
export XDG_CONFIG_HOME=$place/settings XDG_CACHE_HOME=$place/cache HOME=$place DMV_USER=tester USER=${USER:-tester}
failures=0
say() { printf '%s\n' "$*" | tee -a "$report"; }
# Each step prints how long it took. A step that fails prints what the program said.
step() { # NAME CODE COMMAND...: the command must end with the code
  local name=$1 code=$2 began=$SECONDS got=0 said
  shift 2
  said=$("$@" 2>&1 </dev/null) || got=$?
  if [ "$got" = "$code" ]; then
    say "ok      $((SECONDS - began)) s  $name"
  else
    failures=$((failures + 1))
    say "FAILED  $((SECONDS - began)) s  $name: ended with $got, not $code"
    printf '%s\n' "$said" | sed 's/^/        /' | tee -a "$report"
  fi
}
same() { # NAME FILE FILE
  step "$1" 0 cmp "$2" "$3"
}

say "DMV, a first try on $(uname -srm), $(date -u +%Y-%m-%d)"
"$dmv" --version 2>&1 | tee -a "$report"
df -h "$place" | tail -1 | tee -a "$report"
[ "$(uname)" != Darwin ] || diskutil info "$(df "$place" | tail -1 | awk '{ print $1 }')" 2>/dev/null |
  grep -i 'personality\|solid state' | tee -a "$report"

say '' && say '1. The everyday commands'
cd "$place" || exit 1
step init 0 "$dmv" init work
cd work || exit 1
mkdir -p media/deep
printf 'one\n' >media/a.txt
head -c $((mib << 20)) /dev/urandom >media/film.bin
i=0
while [ $i -lt "$files" ]; do
  printf '%s\n' $i >media/deep/$i.txt
  i=$((i + 1))
done
step "commit $files files and $mib MiB" 0 "$dmv" commit -m first
step status 0 "$dmv" status --exit-code
step branch 0 "$dmv" branch side
printf 'two\n' >>media/a.txt
step 'status sees a change' 1 "$dmv" status --exit-code
step 'second commit' 0 "$dmv" commit -m second
step checkout 0 "$dmv" checkout side
printf 'b\n' >b.txt
step 'third commit' 0 "$dmv" commit -m third
step merge 0 "$dmv" merge main
step 'undo the merge' 0 "$dmv" undo
step redo 0 "$dmv" redo
step verify 0 "$dmv" verify --full

say '' && say '2. What a system has of its own'
chmod +x b.txt
step 'status sees an executable bit' 1 "$dmv" status --exit-code
ln -s media/a.txt link
step 'commit a symlink and a bit' 0 "$dmv" commit -m 'link and bit'
mv media/a.txt media/A.txt
step 'status sees another case' 1 "$dmv" status --exit-code
step 'commit another case' 0 "$dmv" commit -m case
mv media/deep media/Deep
step 'commit another case of a directory' 0 "$dmv" commit -m 'case of a directory'
step 'nothing is left to commit' 0 "$dmv" status --exit-code
# The same letters as one character and as two.
printf 'x\n' >"$(printf 'caf\303\251.txt')"
step 'commit a name with an accent' 0 "$dmv" commit -m accent
mv "$(printf 'caf\303\251.txt')" "$(printf 'cafe\314\201.txt')" 2>/dev/null
step 'status after another form of the accent' 0 "$dmv" status
say "        $("$dmv" status --short | head -3 | tr '\n' ';')"
long=$(printf 'd%.0s' $(seq 1 100))
mkdir -p "$long/$long/$long" && printf 'deep\n' >"$long/$long/$long/file.txt"
step 'commit a long path' 0 "$dmv" commit -m long

say '' && say '3. Copies'
cd "$place" || exit 1
step clone 0 "$dmv" clone work copy
same 'the film is the same' work/media/film.bin copy/media/film.bin
[ -x copy/b.txt ] && say 'ok      the executable bit is there' || say 'FAILED  the executable bit is not there'
[ -L copy/link ] && say 'ok      the symlink is there' || say 'FAILED  the symlink is not there'
step 'verify the clone' 0 "$dmv" -C copy verify --full
step pull 0 "$dmv" -C copy pull

say '' && say '4. A kill in the middle'
n=0
while [ $n -lt 10 ]; do
  head -c $((mib << 18)) /dev/urandom >work/media/film.bin
  "$dmv" -C work commit -m "kill $n" >/dev/null 2>&1 &
  pid=$!
  sleep "0.$n" && kill -9 $pid 2>/dev/null
  wait $pid 2>/dev/null
  n=$((n + 1))
done
step 'verify after ten kills' 0 "$dmv" -C work verify --full
step 'commit after ten kills' 0 "$dmv" -C work commit --allow-empty -m after

say '' && say '5. Large and many'
if [ "$(df -k "$place" | tail -1 | awk '{ print $4 }')" -gt $((large_mib << 12)) ]; then
  head -c $((large_mib << 20)) /dev/zero | tr '\0' x >work/media/large.bin
  step "commit a file of $large_mib MiB" 0 "$dmv" -C work commit -m large
  step 'pull it' 0 "$dmv" -C copy pull
  same 'it is the same' work/media/large.bin copy/media/large.bin
else
  say "skipped: less than $((large_mib >> 8)) GiB are free"
fi

say '' && say "$failures steps failed. The report is $report. You can delete $place when you have sent it."
[ $failures = 0 ]
