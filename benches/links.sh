#!/bin/bash
# dmv and git over a slow link between two network namespaces. How to read the figures:
# benches/README.md, "Links".
set -euo pipefail

usage() {
    echo "usage: benches/links.sh [-r REPS] [-d DIR] [-b DMV] [-t MS] [-l LOSS] [-n FILES] [-f FILES] [WORK...]" >&2
    echo "  -t: milliseconds that a packet takes each way (100); -l: percent that get lost (0)" >&2
    echo "  -n: files of 1 KiB in the repository (100000); -f: in the one that is cloned (1000)" >&2
    echo "  WORK: fetch nothing push clone, by default all" >&2
    exit 2
}

reps=5 base=${TMPDIR:-/tmp} delay=100 loss=0 files=100000 few=1000
here=$(dirname "$(readlink -f "$0")")
dmv=$here/../target/dist/dmv
while getopts r:d:b:t:l:n:f: option; do
    case $option in
        r) reps=$OPTARG ;;
        d) base=$OPTARG ;;
        b) dmv=$OPTARG ;;
        t) delay=$OPTARG ;;
        l) loss=$OPTARG ;;
        n) files=$OPTARG ;;
        f) few=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
works=${*:-fetch nothing push clone}
sshd=$(command -v sshd || echo /usr/sbin/sshd)

skip() {
    echo "skipped: $1" >&2
    exit 0
}
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
[ -c /dev/net/tun ] || skip "no /dev/net/tun here"
for program in ip python3 git ssh "$sshd"; do
    command -v "$program" > /dev/null || skip "no $program here"
done

dmv=$(readlink -f "$dmv")
top=$(mktemp -d "$base/links.XXXXXX")
near=dmv-near-$$ far=dmv-far-$$
export HOME=$top/home LC_ALL=C
mkdir "$HOME"
running=()
finish() {
    [ ${#running[@]} = 0 ] || kill "${running[@]}" 2> /dev/null || true
    ip netns del "$near" 2> /dev/null || true
    ip netns del "$far" 2> /dev/null || true
    rm -rf "$top"
}
trap finish EXIT

at_near() { ip netns exec "$near" "$@"; }
at_far() { ip netns exec "$far" "$@"; }

make_link() {
    ip netns add "$near" && ip netns add "$far" || skip "no network namespaces here"
    ip -n "$near" link set lo up
    ip -n "$far" link set lo up
    python3 "$here/delay.py" "$near" "$far" "$delay" "$loss" > "$top/delay" &
    running+=($!)
    until_says ready "$top/delay"
}

until_says() {
    local n
    for n in $(seq 100); do
        grep -q "$1" "$2" && return
        sleep 0.1
    done
    skip "$2 does not say $1"
}

# A daemon of our own in the far namespace, with keys that live as long as this script. Its settings are
# those of a distribution: in particular it does not pass GIT_PROTOCOL on.
start_sshd() {
    mkdir -m 700 "$top/ssh"
    ssh-keygen -q -t ed25519 -N '' -f "$top/ssh/host"
    ssh-keygen -q -t ed25519 -N '' -f "$top/ssh/user"
    cat > "$top/ssh/sshd_config" << END
Port 22
ListenAddress 10.77.0.2
HostKey $top/ssh/host
AuthorizedKeysFile $top/ssh/user.pub
PidFile none
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
${GIT_V2:+AcceptEnv GIT_PROTOCOL}
END
    echo "10.77.0.2 $(cut -d' ' -f1,2 "$top/ssh/host.pub")" > "$top/ssh/known"
    cat > "$top/ssh/config" << END
Host far
 HostName 10.77.0.2
 IdentityFile $top/ssh/user
 IdentitiesOnly yes
 UserKnownHostsFile $top/ssh/known
END
    # In place of the shell, so that it is what gets killed.
    (exec ip netns exec "$far" "$sshd" -D -e -f "$top/ssh/sshd_config" 2> "$top/ssh/log") &
    running+=($!)
    export DMV_SSH_COMMAND="ssh -F $top/ssh/config" GIT_SSH_COMMAND="ssh -F $top/ssh/config"
    export DMV_SSH_REMOTE=$dmv
    until_says listening "$top/ssh/log"
}

# Makes DIR/work a worktree of so many files, in a hundred directories.
make_files() {
    local n per=$(($2 / 100))
    mkdir "$1"
    for n in $(seq -w 0 99); do
        mkdir "$1/d$n"
        head -c "${per}K" /dev/urandom | split -b 1024 -a 3 -d - "$1/d$n/f"
    done
}

change_ten() {
    local n
    for n in $(seq 10 10 99); do head -c 1K /dev/urandom > "$1/d$n/f003"; done
}

# Two repositories with the same files: what the far end has, what the near end has, before and after a
# commit of ten changed files at either end.
make_repositories() {
    make_files "$top/files" "$files"
    git config --global user.name bench
    git config --global user.email bench@localhost
    git config --global gc.auto 0
    cp -r "$top/files" "$top/dmv-work"
    mv "$top/files" "$top/git-work"
    "$dmv" -q init "$top/dmv-work"
    "$dmv" -q -C "$top/dmv-work" commit -m first
    git -C "$top/git-work" init -q -b main
    git -C "$top/git-work" add -A
    git -C "$top/git-work" commit -q -m first
    git -C "$top/git-work" repack -q -a -d
    "$dmv" -q clone --bare "$top/dmv-work" "$top/dmv-old"
    git clone -q --bare "$top/git-work" "$top/git-old"
    change_ten "$top/dmv-work"
    change_ten "$top/git-work"
    "$dmv" -q -C "$top/dmv-work" commit -m second
    git -C "$top/git-work" commit -q -a -m second
    "$dmv" -q clone --bare "$top/dmv-work" "$top/dmv-new"
    git clone -q --bare --no-local "$top/git-work" "$top/git-new"
    # Not a file of the worktrees is needed again; deleting them now would slow down what follows.
    make_files "$top/few" "$few"
    "$dmv" -q init "$top/few"
    "$dmv" -q -C "$top/few" commit -m few
    "$dmv" -q clone --bare "$top/few" "$top/dmv-few"
    git -C "$top/few" init -q -b main
    echo .dmv > "$top/few/.git/info/exclude"
    git -C "$top/few" add -A
    git -C "$top/few" commit -q -m few
    git clone -q --bare --no-local "$top/few" "$top/git-few"
}

# Serves REPOSITORY by key in the far namespace. Its address goes to `served`.
serve() {
    local out=$top/serving
    "$dmv" -q -C "$1" trust --write "$(at_near "$dmv" id)" > /dev/null
    (cd "$1" && HOME=$top/far-home exec ip netns exec "$far" "$dmv" serve --listen 10.77.0.2:0 --json) > "$out" &
    serving=$!
    until_says addresses "$out"
    served=$(grep -o 'dmv://[^"]*' "$out" | head -n 1)
}

# Prints the seconds that one go of WORK takes with TOOL. What it works on is copied anew.
once() {
    local work=$1 tool=$2 kind=${2%%-*} there=$top/there here_=$top/here url
    rm -rf "$there" "$here_"
    case $work in
        ssh) ;;
        fetch) cp -r "$top/$kind-new" "$there" && cp -r "$top/$kind-old" "$here_" ;;
        nothing) cp -r "$top/$kind-new" "$there" && cp -r "$top/$kind-new" "$here_" ;;
        push) cp -r "$top/$kind-old" "$there" && cp -r "$top/$kind-new" "$here_" ;;
        clone) cp -r "$top/$kind-few" "$there" ;;
        *) usage ;;
    esac
    serving=
    case $tool in
        *-quic) serve "$there" && url=$served ;;
        *) url=ssh://far$there ;;
    esac
    sync -f "$top"
    if [ "$kind-$work" != "$kind-clone" ] && [ "$kind" = dmv ]; then
        "$dmv" -q -C "$here_" remote remove origin
        "$dmv" -q -C "$here_" remote add origin "$url"
    fi
    local start end
    start=$(date +%s.%N)
    case $tool-$work in
        ssh-*) at_near ssh -F "$top/ssh/config" far true ;;
        git-*-clone) at_near git clone -q "$url" "$here_" ;;
        git-*-push) at_near git -C "$here_" push -q "$url" main ;;
        git-*) at_near git -C "$here_" fetch -q "$url" main:refs/remotes/origin/main ;;
        dmv-*-clone) at_near "$dmv" clone --json "$url" "$here_" > "$top/said" ;;
        dmv-*-push) at_near "$dmv" -C "$here_" push --json > "$top/said" ;;
        dmv-*) at_near "$dmv" -C "$here_" fetch --json > "$top/said" ;;
    esac
    end=$(date +%s.%N)
    [ -z "$serving" ] || { kill "$serving" && wait "$serving" || true; }
    echo "$start $end" | awk '{ printf "%.3f\n", $2 - $1 }'
}

make_link
start_sshd
make_repositories
for rep in $(seq "$reps"); do
    for work in ssh $works; do
        case $work in ssh) tools=ssh ;; *) tools="git-ssh dmv-ssh dmv-quic" ;; esac
        for tool in $tools; do
            seconds=$(once "$work" "$tool")
            echo "$work $tool $seconds" >> "$top/figures"
            trips=
            case $tool in dmv-*) trips=$(grep -o '"round_trips":[0-9]*' "$top/said") ;; esac
            echo "$rep: $work $tool $seconds s $trips" >&2
        done
    done
done

# The median of what `figures` has about WORK and TOOL, with least and most.
median() {
    awk -v w="$1" -v t="$2" '$1 == w && $2 == t { print $3 }' "$top/figures" | sort -n |
        awk '{ v[NR] = $1 } END {
            m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
            printf "%.2f (%.2f-%.2f)", m, v[1], v[NR] }'
}
echo "| ssh | $(median ssh ssh) |"
for work in $works; do
    git=$(median "$work" git-ssh)
    echo -n "| $work | $git |"
    for tool in dmv-ssh dmv-quic; do
        time=$(median "$work" $tool)
        echo -n " $time | $(echo "$time $git" | awk '{ printf "%.2fx", $1 / $3 }') |"
    done
    echo
done
