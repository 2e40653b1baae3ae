#!/bin/bash
# Peak memory of both sides of a clone, push and fetch. How to read the figures: benches/README.md, "Memory".
set -euo pipefail

usage() {
    echo "usage: benches/memory.sh [-b DMV] [-c BYTES] DIR FILES..." >&2
    echo "  for each number of files of BYTES (1024), 1,000 in a directory; DIR: 9 GiB of tmpfs for 1,000,000" >&2
    echo "  above that, commits of 1,000,000 each, with no more than those in the worktree; clones then" >&2
    echo "  have a worktree of the first million only: 14 GiB for 10,000,000 files of 64 bytes" >&2
    exit 2
}

dmv=$(dirname "$(readlink -f "$0")")/../target/dist/dmv bytes=1024 slice=1000000
while getopts b:c: option; do
    case $option in
        b) dmv=$OPTARG ;;
        c) bytes=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || usage
dmv=$(readlink -f "$dmv")
top=$(mktemp -d "$1/memory.XXXXXX")
shift
trap 'rm -rf "$top"' EXIT
export HOME=$top/home DMV_SSH_COMMAND=$top/ssh DMV_SSH_REMOTE=$dmv
mkdir "$HOME"
# In place of ssh: runs the command of the other side here, and notes its peak.
cat > "$top/ssh" << END
#!/bin/bash
while [ \$# -gt 1 ]; do shift; done
# Not in place of this shell: who called may end it before that has noted anything.
/usr/bin/time -f %M -o "$top/there" sh -c "exec \$1"
END
chmod +x "$top/ssh"

# Prints the peaks of `dmv ARGS`.
measure() {
    local label=$1 n
    shift
    rm -f "$top/there"
    /usr/bin/time -f %M -o "$top/here" "$dmv" -q "$@"
    # The other side may end a moment later.
    for n in 1 2 3 4 5 6 7 8 9 10; do [ -s "$top/there" ] || sleep 0.2; done
    local there=-
    [ ! -s "$top/there" ] || there=$(($(cat "$top/there") / 1024))
    echo "| $label | $(($(cat "$top/here") / 1024)) | $there |"
}

# Makes so many files under a new directory of the worktree.
make_files() {
    local dir
    for dir in $(seq $((($1 + 999) / 1000))); do
        mkdir -p "$2/d$dir"
        head -c $((bytes * 1000)) /dev/urandom | split -b "$bytes" -a 3 -d - "$2/d$dir/f"
    done
}

# Commits so many files, a slice at a time; the last commit is measured.
make_repository() {
    local files=$1 n=0
    "$dmv" -q init "$top/work"
    while [ "$files" -gt "$slice" ]; do
        n=$((n + 1)) files=$((files - slice))
        [ "$n" = 1 ] || "$dmv" -q -C "$top/work" subset set "s$n"
        make_files "$slice" "$top/work/s$n"
        "$dmv" -q -C "$top/work" commit -m "slice $n"
    done
    [ "$n" = 0 ] || "$dmv" -q -C "$top/work" subset set last
    make_files "$files" "$top/work/last"
    measure "$1 files: commit" -C "$top/work" commit -m last
    "$dmv" -q clone --bare "$top/work" "$top/bare"
    rm -rf "$top/work"
}

for files in "$@"; do
    make_repository "$files"
    part=() clone=clone
    [ "$files" -le "$slice" ] || { part=(--subset s1) clone="clone --subset s1"; }
    measure "$clone over ssh" clone "ssh://here$top/bare" "$top/clone" "${part[@]}"
    rm -rf "$top/clone"
    measure "$clone from a path (both sides)" clone "$top/bare" "$top/clone" "${part[@]}"
    rm -rf "$top/clone"
    measure "clone --bare over ssh" clone --bare "ssh://here$top/bare" "$top/clone"
    "$dmv" -q init --bare "$top/empty"
    "$dmv" -q -C "$top/clone" remote add there "ssh://here$top/empty"
    measure "push over ssh" -C "$top/clone" push there
    rm -rf "$top/empty" "$top/clone"
    "$dmv" -q init --bare "$top/empty"
    "$dmv" -q -C "$top/empty" remote add there "ssh://here$top/bare"
    measure "fetch over ssh" -C "$top/empty" fetch there
    rm -rf "$top/empty" "$top/bare"
done
