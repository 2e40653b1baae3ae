#!/bin/bash
# Many peers that clone at once from one `dmv serve`. How to read the figures: benches/README.md, "Transfers".
set -euo pipefail

usage() {
    echo "usage: benches/crowd.sh [-n PEERS] [-f FILES] [-b DMV] DIR" >&2
    exit 2
}

dmv=$(dirname "$(readlink -f "$0")")/../target/dist/dmv peers=50 files=10000
while getopts n:f:b: option; do
    case $option in
        n) peers=$OPTARG ;;
        f) files=$OPTARG ;;
        b) dmv=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] || usage
dmv=$(readlink -f "$dmv")
top=$(mktemp -d "$1/crowd.XXXXXX")
server=
finish() {
    [ -z "$server" ] || kill "$server" 2> /dev/null || true
    rm -rf "$top"
}
trap finish EXIT
export HOME=$top/server
mkdir "$HOME"
for dir in $(seq $((files / 1000))); do
    mkdir -p "$top/work/d$dir"
    head -c 1000K /dev/urandom | split -b 1024 -a 3 -d - "$top/work/d$dir/f"
done
"$dmv" -q init "$top/work"
"$dmv" -q -C "$top/work" commit -m first
for peer in $(seq "$peers"); do
    mkdir "$top/$peer"
    key=$(HOME=$top/$peer "$dmv" id | grep -oE '[0-9a-f]{64}' | head -n 1)
    "$dmv" -q -C "$top/work" trust "$key" --name "peer$peer" > /dev/null
done
"$dmv" -C "$top/work" serve --json > "$top/serving" &
server=$!
until grep -q addresses "$top/serving"; do sleep 0.1; done
address=$(grep -oE 'dmv://[^"]+' "$top/serving" | head -n 1)
start=$(date +%s.%N)
clients=()
for peer in $(seq "$peers"); do
    (
        HOME=$top/$peer "$dmv" -q clone --bare "$address" "$top/$peer/clone"
        date +%s.%N > "$top/$peer/end"
    ) &
    clients+=($!)
done
wait "${clients[@]}"
peak=$(awk '/VmHWM/ { print int($2 / 1024) }' "/proc/$server/status")
cat "$top"/*/end | sort -n | awk -v start="$start" -v peak="$peak" '{ v[NR] = $1 - start } END {
    printf "%d peers: first %.1f s, half %.1f s, all %.1f s; server %d MiB\n", NR, v[1], v[int((NR + 1) / 2)], v[NR], peak }'
