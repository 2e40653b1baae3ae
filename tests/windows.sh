#!/usr/bin/env bash
# Builds DMV for Windows with mingw, and tries under Wine what can be tried there: the tests of dmv-core, and a story
# told with the program. Wine is not Windows: it has other file systems, no virus scanner and other rules for files that
# are open. So a pass here says that the calls are right, and no more.
#
#   tests/windows.sh           all of it
#   tests/windows.sh core      the tests of dmv-core
#   tests/windows.sh story     the story
#
# It needs the target x86_64-pc-windows-gnu of rustup, and Debian's packages gcc-mingw-w64-x86-64 and wine64. Without
# one of them it says "skipped" and passes.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
target=x86_64-pc-windows-gnu
skip() { echo "skipped: the tests under Wine: $1"; exit 0; }
command -v x86_64-w64-mingw32-gcc >/dev/null || skip "gcc-mingw-w64-x86-64 is not installed"
wine=$(command -v wine64 || command -v wine || ls /usr/lib/wine/wine64 2>/dev/null) || skip "Wine is not installed"
rustup target list --installed 2>/dev/null | grep -q "$target" || rustup target add "$target" >/dev/null 2>&1 ||
  skip "rustup has no target $target"

place=$PWD/target/wine
export WINEPREFIX=$place/prefix WINEDEBUG=-all CARGO_INCREMENTAL=0
mkdir -p "$place"
[ -e "$WINEPREFIX/system.reg" ] || "$wine" wineboot -i >/dev/null 2>&1 || skip "Wine makes no directory of its own"
# Rust asks this library for random numbers. Wine has it since 8.15.
system=$WINEPREFIX/drive_c/windows/system32
if [ ! -e "$system/bcryptprimitives.dll" ]; then
  cat >"$place/random.c" <<'END'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T len) { return SystemFunction036(data, (ULONG)len); }
END
  x86_64-w64-mingw32-gcc -shared -o "$system/bcryptprimitives.dll" "$place/random.c" -ladvapi32
fi

# Tests that fail under Wine 8 or without Unix, with the reason.
not_there=(
  # The holder of a lock is not known on Windows.
  locks::tests::who_waits_is_told_who_has_the_lock
)

core() {
  local program skipped=()
  program=$(cargo test --target "$target" -p dmv-core --lib --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*dmv_core[^"]*\.exe\)".*/\1/p' | tail -1)
  for name in "${not_there[@]}"; do skipped+=(--skip "$name"); done
  (cd crates/dmv-core && timeout 1200 "$wine" "$program" --test-threads 4 "${skipped[@]}")
}

# Each line is a command, what it must print, and the exit code that it must have.
story() {
  cargo build --target "$target" -p dmv-cli --no-default-features --features git
  local dmv=$PWD/target/$target/debug/dmv.exe dir=$place/story
  rm -rf "$dir" && mkdir -p "$dir/work" && cd "$dir/work"
  export XDG_CONFIG_HOME='Z:'$dir/settings USER=me
  try() { # CODE TEXT COMMAND...: the command ends with the code, and says the text
    local code=$1 text=$2 got=0 said
    shift 2
    said=$(timeout 120 "$wine" "$dmv" "$@" 2>&1 </dev/null) || got=$?
    if [ "$got" != "$code" ] || [[ "$said" != *"$text"* ]]; then
      printf 'dmv %s\n%s\nended with %s; it must end with %s and say "%s"\n' "$*" "$said" "$got" "$code" "$text"
      return 1
    fi
  }
  try 0 "" init .
  mkdir -p media
  printf 'one\n' >media/a.txt
  head -c 3000000 /dev/urandom >media/film.bin
  try 0 "" commit -m first
  try 0 "nothing" status
  try 0 "" branch side
  printf 'two\n' >>media/a.txt
  try 0 "a.txt" status
  try 0 "" commit -m second
  try 0 "" checkout side
  [ "$(cat media/a.txt)" = one ]
  printf 'b\n' >b.txt
  try 0 "" commit -m third
  try 0 "" merge main
  grep -q two media/a.txt
  try 0 "first" log
  # A name is given with the separator of Windows, too.
  try 0 "one" cat 'media\a.txt'
  mv media/a.txt media/A.txt
  try 0 "A.txt" status
  try 0 "" commit -m 'other case'
  try 0 "" verify
  cd ..
  try 0 "" clone work copy
  cmp work/media/film.bin copy/media/film.bin
  (cd copy && try 0 "" pull)
  try 0 "" -C copy verify
}

case $what in
core) core ;;
story) story ;;
all) core && (story) ;;
*) echo "usage: tests/windows.sh [core|story]" >&2; exit 2 ;;
esac
