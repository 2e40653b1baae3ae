#!/bin/sh
# Brings one directory of a DMV repository to a job: subset.sh tree|fetch SOURCE REV PATH META [TO].
#
# "tree" prints a key for a cache of what PATH has in REV: it changes when PATH or its content does. It receives
# directories only, into META, a directory that the job may keep. "fetch" writes the files to TO, which must not exist,
# and receives their content.
set -eu

[ $# -eq 5 ] || [ $# -eq 6 ] || { echo "usage: subset.sh tree|fetch SOURCE REV PATH META [TO]" >&2; exit 2; }
action=$1 source=$2 rev=$3 path=$4 meta=$5

[ "$action" != fetch ] || [ -n "${6-}" ] || { echo "subset.sh: fetch needs TO" >&2; exit 2; }

# No value may be taken for an option.
for value in "$source" "$rev" "$path" "$meta"; do
  case $value in -*) echo "subset.sh: '$value' begins with '-'" >&2; exit 2;; esac
done

# One for each source: another repository has other files at the same path.
mkdir -p "$meta"
meta=$meta/$(printf %s "$source" | sha256sum | cut -c1-16)

# A mirror follows the branches and tags of its source. "fetch" takes what "tree" has seen.
if [ -e "$meta" ]; then
  [ "$action" = fetch ] || dmv -C "$meta" fetch -q
else
  dmv clone -q --mirror --meta-only "$source" "$meta"
fi

case $action in
  tree)
    above=$(dirname "$path")
    [ "$above" != . ] || above=
    dmv -C "$meta" ls --json "$rev:$above" | DMV_WANTED=$path python3 -c '
import hashlib, json, os, sys
for line in sys.stdin:
    entry = json.loads(line)
    if entry["path"] == os.environ["DMV_WANTED"].rstrip("/"):
        print(hashlib.sha256((entry["id"] + "\n" + entry["path"]).encode()).hexdigest())
        break
else:
    sys.exit("subset.sh: there is no such path in this revision")'
    ;;
  fetch)
    dmv -C "$meta" export "$rev" --subset "$path" --to "$(realpath -m -- "$6")"
    ;;
  *)
    echo "subset.sh: '$action' is neither tree nor fetch" >&2
    exit 2
    ;;
esac
