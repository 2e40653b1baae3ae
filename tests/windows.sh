#!/usr/bin/env bash
# Builds DMV for Windows with mingw, and tries under Wine what can be tried there: the tests of dmv-core, and a story
# told with the program. Wine is not Windows: it has other file systems, no virus scanner and other rules for files that
# are open. So a pass here says that the calls are right, and no more.
#
#   tests/windows.sh           all of it
#   tests/windows.sh core      the tests of dmv-core
#   tests/windows.sh story     the story
#   tests/windows.sh names     the table of odd names, in turn with Linux
#   tests/windows.sh turns     repositories that Linux and Windows use in turn; DMV_HISTORIES is how many
#   tests/windows.sh program   the tests of the program in a mount namespace, but those of tests/windows-left-out.txt,
#                              which says why; with words, the tests that have one in their names; not in `all`
#   tests/windows.sh web       pages with a preview, and a connection by key
#
# It needs the target x86_64-pc-windows-gnu of rustup, and Debian's packages gcc-mingw-w64-x86-64 and wine64. Without
# one of them it says "skipped" and passes. DMV_WINE and WINEPREFIX name another Wine and its directory.
#
# DMV_WINE_ROOT names a directory for Debian's next release, whose Wine 10 is then used. The first run fills it (a few
# minutes) with Debian's package debootstrap. Such runs need root.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
target=x86_64-pc-windows-gnu
skip() { echo "skipped: the tests under Wine: $1"; exit 0; }
command -v x86_64-w64-mingw32-gcc >/dev/null || skip "gcc-mingw-w64-x86-64 is not installed"
# Wine in a root of its own. What is mounted there goes with this process.
if [ -n "${DMV_WINE_ROOT:-}" ]; then
  [ -n "${DMV_WINE_MOUNTED:-}" ] || DMV_WINE_MOUNTED=1 exec unshare -m --propagation private "tests/windows.sh" "$@"
  [ -e "$DMV_WINE_ROOT/usr/lib/wine/wine64" ] || { command -v debootstrap >/dev/null &&
    debootstrap --variant=minbase --include=wine64,wine trixie "$DMV_WINE_ROOT" >/dev/null; } ||
    skip "debootstrap makes no root with Wine in it"
  for inside in /dev /proc /tmp "$PWD"; do
    mkdir -p "$DMV_WINE_ROOT$inside"
    mount --rbind "$inside" "$DMV_WINE_ROOT$inside"
  done
  mkdir -p target/wine
  DMV_WINE=$PWD/target/wine/in-root
  cat >"$DMV_WINE" <<END
#!/bin/sh
exec /usr/sbin/chroot '$DMV_WINE_ROOT' /bin/sh -c 'cd "\$0" && exec /usr/lib/wine/wine64 "\$@"' "\$PWD" "\$@"
END
  chmod +x "$DMV_WINE"
  export WINEPREFIX=${WINEPREFIX:-$PWD/target/wine/prefix-in-root}
fi
wine=${DMV_WINE:-$(command -v wine64 || command -v wine || ls /usr/lib/wine/wine64 2>/dev/null)} ||
  skip "Wine is not installed"
rustup target list --installed 2>/dev/null | grep -q "$target" || rustup target add "$target" >/dev/null 2>&1 ||
  skip "rustup has no target $target"

top=$PWD place=$PWD/target/wine linux=$PWD/target/debug/dmv
export WINEPREFIX=${WINEPREFIX:-$place/prefix} WINEDEBUG=-all CARGO_INCREMENTAL=0 LC_ALL=C.UTF-8
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

# Tests that fail under Wine 8. There a file or directory that goes while it is open keeps its name until it is closed,
# and one that is open can neither move nor be replaced. Windows has done better since version 10 of 2018.
not_there=(
  locks::tests::a_lock_file_that_was_removed_locks_nobody_out
  platform::tests::a_directory_stays_the_same_when_it_is_moved
  refs::schema::copy::tests::a_database_that_somebody_keeps_locked_is_read_and_not_written
  repo::base::spill::tests::bytes_stay_in_memory_where_no_file_can_be_created
  repo::files::checkout::written::tests::where_no_file_can_be_made_all_is_forgotten_but_the_number
  store::table::tests::an_index_that_somebody_took_before_it_was_locked_is_not_registered
)

# The program of Linux makes repositories for the one of Windows.
[ "$what" = core ] || cargo build -p dmv-cli

core() {
  local program skipped=()
  program=$(cargo test --target "$target" -p dmv-core --lib --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*dmv_core[^"]*\.exe\)".*/\1/p' | tail -1)
  for name in "${not_there[@]}"; do skipped+=(--skip "$name"); done
  (cd crates/dmv-core && timeout 1200 "$wine" "$program" --test-threads 4 "${skipped[@]}")
}

# Builds the program with everything in it, and says where it is.
build() {
  cargo build --target "$target" -p dmv-cli >&2
  # Half of the file tells a debugger about the program, and Wine would read that at each start.
  x86_64-w64-mingw32-strip -o "$place/dmv.exe" "target/$target/debug/dmv.exe"
  echo "$place/dmv.exe"
}

# Goes into a new directory, with settings of its own.
begin() { # NAME
  dir=$place/$1
  rm -rf "$dir" && mkdir -p "$dir/work" && cd "$dir/work"
  export XDG_CONFIG_HOME='Z:'$dir/settings USER=me
}

try() { # CODE TEXT COMMAND...: the command ends with the code, and says the text
  local code=$1 text=$2 got=0 said
  shift 2
  said=$(timeout 120 "$wine" "$dmv" "$@" 2>&1 </dev/null) || got=$?
  if [ "$got" != "$code" ] || [[ "$said" != *"$text"* ]]; then
    printf 'dmv %s\n%s\nended with %s; it must end with %s and say "%s"\n' "$*" "$said" "$got" "$code" "$text"
    return 1
  fi
}

# Ends what runs in the background.
finish() { { kill "$1" && wait "$1"; } 2>/dev/null || true; }

# Waits until a file has a line with the text, and prints its first word.
said_in() { # FILE TEXT
  local n
  for n in $(seq 120); do
    if grep -q "$2" "$1"; then
      grep -m 1 "$2" "$1" | cut -d ' ' -f 1 | tr -d '\r'
      return
    fi
    sleep 0.5
  done
  cat "$1" >&2
  return 1
}

story() {
  local dmv dir long holder
  dmv=$(build)
  begin story
  try 0 "quic, store, web" --version
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
  try 0 "" mv media/A.txt media/a.TXT
  try 0 "" mv media Media
  [ "$(ls . Media | tr '\n' ' ')" = ".: Media b.txt  Media: a.TXT film.bin " ]
  try 0 "" commit -m 'another case'
  try 0 "Media/a.TXT" ls -r
  # A path of more than 260 characters.
  long=$(printf 'd%.0s' $(seq 100))
  mkdir -p "$long/$long/$long" && printf 'deep\n' >"$long/$long/$long/file.txt"
  try 0 "" commit -m 'long path'
  try 0 "" verify
  cd ..
  try 0 "" clone work copy
  cmp work/Media/film.bin copy/Media/film.bin
  cmp "work/$long/$long/$long/file.txt" "copy/$long/$long/$long/file.txt"
  (cd copy && try 0 "" pull)
  try 0 "" -C copy verify
  # A command replaces the stat cache although it has read the old one.
  cd work
  touch "$dir/before"
  printf 'more\n' >>b.txt
  try 0 "" stash
  [ .dmv/worktrees/main/stat -nt "$dir/before" ]
  try 0 "" stash pop
  try 0 "" restore b.txt
  cd ..
  # A file that another program holds is named after two seconds, and the rest goes on.
  cd work
  printf 'held\n' >held.txt && printf 'free\n' >free.txt
  holder="#include <windows.h>
    int main(int count, char **names) {
      HANDLE file = CreateFileA(names[1], GENERIC_READ, 0, 0, OPEN_EXISTING, 0, 0);
      return file == INVALID_HANDLE_VALUE || (puts(\"held\"), fflush(stdout), Sleep(60000), 0);
    }"
  x86_64-w64-mingw32-gcc -w -include stdio.h -x c -o "$dir/hold.exe" - <<<"$holder"
  "$wine" "$dir/hold.exe" held.txt >"$dir/holder.txt" &
  holder=$!
  said_in "$dir/holder.txt" held >/dev/null
  try 3 "held.txt" commit -m 'while a file is held'
  try 0 "free.txt" ls
  finish "$holder"
  try 0 "" commit -m 'the file is free'
  try 0 "held.txt" ls
  # So does a checkout, and it goes on when it is run again.
  try 0 "" branch before
  printf 'other\n' | tee held.txt >free.txt
  try 0 "" commit -m 'other content'
  # Afterwards the file need not be read to know that nobody has edited it.
  try 0 "nothing" status
  "$wine" "$dir/hold.exe" held.txt >"$dir/holder2.txt" &
  holder=$!
  said_in "$dir/holder2.txt" held >/dev/null
  try 3 "held.txt" checkout before
  [ "$(cat free.txt held.txt)" = "$(printf 'free\nother')" ]
  finish "$holder"
  try 0 "" checkout before
  [ "$(cat held.txt)" = held ]
  cd ..
  # Of two names that the file system takes for one, the second is left out and kept, until the first one goes.
  "$linux" init -q meeting && mkdir meeting/Src meeting/src
  printf x >meeting/README && printf y >meeting/readme && printf s >meeting/Src/a && printf t >meeting/src/b
  "$linux" -C meeting commit -q -m both
  try 3 "takes its name for that of" clone meeting apart
  printf z >apart/README
  try 3 "" -C apart commit -m 'one of both'
  "$linux" -C meeting pull -q ../apart
  [ "$(cat meeting/readme)" = y ] && [ "$(cat meeting/README)" = z ] && [ "$(cat meeting/src/b)" = t ]
  cd apart
  try 0 "" mv README top.txt
  try 3 "" commit -m 'no longer'
  try 0 "" restore readme
  [ "$(cat readme)" = y ]
  try 0 "" mv Src Sources
  try 3 "" commit -m 'a directory, too'
  try 0 "" restore src
  [ "$(cat src/b)" = t ] && [ "$(ls)" = "$(printf 'Sources\nreadme\nsrc\ntop.txt')" ]
  # A symlink stays out of the worktree, and in the commits.
  cd ..
  "$linux" init -q linked && printf x >linked/a && ln -s a linked/link && "$linux" -C linked commit -q -m link
  try 3 "link: no symlinks can be made here" clone linked unlinked
  [ "$(ls unlinked)" = a ] && printf y >>unlinked/a
  try 3 "link" -C unlinked commit -m 'without the link'
  "$linux" -C linked pull -q ../unlinked
  [ "$(readlink linked/link)" = a ] && [ "$(cat linked/link)" = xy ]
}

# Keeps Wine's server and what it starts in the background, so that no command has to wait for them or gets them as
# they end.
keep_wine() {
  x86_64-w64-mingw32-gcc -w -x c -o "$dir/stay.exe" - <<<'#include <windows.h>
    #include <stdio.h>
    int main() { puts("stays"); fflush(stdout); Sleep(INFINITE); }'
  "$wine" "$dir/stay.exe" >"$dir/stay.txt" 2>/dev/null </dev/null &
  stays=$!
  said_in "$dir/stay.txt" stays >/dev/null
}

# Linux and Windows use repositories in turn: ten random histories, and ten in which commands are killed.
turns() {
  local dmv dir stays status=0
  dmv=$(build)
  begin turns
  keep_wine
  cd "$top"
  # What Wine itself says is shown when a command ends in a way that no command of dmv does.
  export WINEDEBUG=err+all
  for kills in "" --kills; do
    # shellcheck disable=SC2086
    tests/windows-histories $kills "$linux" "$dir/histories$kills" "${DMV_HISTORIES:-10}" "${DMV_SEED:-1}" \
      "$wine" "$dmv" || status=$?
  done
  finish "$stays"
  return "$status"
}

names() {
  local dmv dir
  dmv=$(build)
  begin names
  cd "$top"
  tests/windows-names "$linux" "$dir/table" "$wine" "$dmv"
}

web() {
  local dmv dir address key server
  dmv=$(build)
  begin web
  try 0 "" init .
  base64 -d >picture.png <<<iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAE0lEQVR4nGP4z8DAAMIM/zk5OQEaKgMZ7jV9AAAAAABJRU5ErkJggg==
  try 0 "" commit -m picture
  "$wine" "$dmv" web >"$dir/web.txt" 2>&1 </dev/null &
  server=$!
  address=$(said_in "$dir/web.txt" http://)
  curl -sSfL -c "$dir/jar" "$address" | grep -q Overview
  address=${address%/in/*}
  # A process in a job of its own decodes the picture.
  curl -sSf -b "$dir/jar" "$address/preview/@/picture.png" -o "$dir/preview" -w '%{content_type}' | grep -q image/
  finish "$server"
  # A connection by key, from Linux.
  key=$(XDG_CONFIG_HOME=$dir/linux "$linux" id)
  try 0 "" trust "$key" --name linux
  "$wine" "$dmv" serve >"$dir/serve.txt" 2>&1 </dev/null &
  server=$!
  address=$(said_in "$dir/serve.txt" dmv://)
  XDG_CONFIG_HOME=$dir/linux timeout 120 "$linux" clone "$address" ../by-key
  finish "$server"
  cmp picture.png ../by-key/picture.png
}

# Prints the tests of tests/windows-left-out.txt, where a name that ends with `::` stands for all that begin with it.
# Tells names that no test has (any more).
left_out() { # TESTS
  local name found
  sed '/^#/d; /^$/d' "$top/tests/windows-left-out.txt" | while read -r name; do
    case $name in
    *::) found=$(grep "^$name" "$1") ;;
    *) found=$(grep -x "$name" "$1") ;;
    esac || echo "tests/windows-left-out.txt: no test is called $name" >&2
    [ -z "$found" ] || echo "$found"
  done
}

# The tests of the program as they are: a script stands in for the program, in a mount namespace.
program() {
  local dmv dir tests stays name status=0
  dmv=$(build)
  begin program
  cd "$top"
  tests=$(cargo test -p dmv-cli --test program --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*program-[^"]*\)".*/\1/p' | tail -1)
  if [ $# = 0 ]; then
    "$tests" --list --format terse | sed -n 's/: test$//p' >"$dir/all.txt"
    left_out "$dir/all.txt" >"$dir/left-out.txt"
    echo "$(wc -l <"$dir/left-out.txt") of $(wc -l <"$dir/all.txt") tests are left out"
    set -- --exact
    while read -r name; do set -- "$@" --skip "$name"; done <"$dir/left-out.txt"
  fi
  cat >"$dir/dmv" <<END
#!/bin/sh
export WINEPREFIX='$WINEPREFIX' WINEDEBUG=-all LC_ALL=C.UTF-8 PATH=/usr/bin:/bin HOME="Z:\$HOME"
export XDG_CONFIG_HOME="Z:\$XDG_CONFIG_HOME"
# Wine 10 ends at once if it is set.
unset TMPDIR
exec '$wine' '$dmv' "\$@"
END
  chmod +x "$dir/dmv"
  # The tests wait until nothing has their pipes open any more, so what Wine starts in the background must not begin
  # with one of theirs.
  keep_wine
  (cd crates/dmv-cli && unshare -m --propagation slave sh -c 'mount --bind "$0" "$1" && shift && exec "$@"' \
    "$dir/dmv" "$linux" "$tests" --test-threads 2 "$@") || status=$?
  finish "$stays"
  return "$status"
}

case $what in
core | story | names | turns | web) ("$what") ;;
program) shift && (program "$@") ;;
all) core && (story) && (names) && (turns) && (web) ;;
*) echo "usage: tests/windows.sh [core|story|names|turns|web|program FILTER...]" >&2; exit 2 ;;
esac
