#!/bin/bash
# Peak memory of both sides of a clone, push and fetch. How to read the figures: benches/README.md, "Memory".
set -euo pipefail

usage() {
    echo "usage: benches/memory.sh [-b DMV] DIR FILES..." >&2
    echo "  for each number of files of 1 KiB, 1,000 in a directory; DIR: 9 GiB of tmpfs for 1,000,000" >&2
    exit 2
}

dmv=$(dirname "$(readlink -f "$0")")/../target/release/dmv
while getopts b: option; do
    case $option in
        b) dmv=$OPTARG ;;
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

for files in "$@"; do
    mkdir "$top/work"
    for dir in $(seq $(((files + 999) / 1000))); do
        mkdir "$top/work/d$dir"
        head -c 1000K /dev/urandom | split -b 1024 -a 3 -d - "$top/work/d$dir/f"
    done
    "$dmv" -q init "$top/work"
    measure "$files files: commit" -C "$top/work" commit -m first
    "$dmv" -q clone --bare "$top/work" "$top/bare"
    rm -rf "$top/work"
    measure "clone over ssh" clone "ssh://here$top/bare" "$top/clone"
    rm -rf "$top/clone"
    measure "clone from a path (both sides)" clone "$top/bare" "$top/clone"
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
