#!/bin/bash
# Clones by dmv against cp, git and scp. How to read the figures: benches/README.md, "Transfers".
set -euo pipefail

usage() {
    echo "usage: benches/transfers.sh [-r REPS] [-d DIR] [-m GIB] [-b DMV] [-k] small|large [STEP...]" >&2
    echo "  small: 100,000 files of 1 KiB; steps cp floor path bare git ssh git-ssh quic quic-bare" >&2
    echo "  -k: leave the files, deleting which can take longer than making them" >&2
    echo "  large: one random file of 1 GiB; steps cp floor path bare scp ssh quic quic-bare iroh" >&2
    exit 2
}

reps=3 base=${TMPDIR:-/tmp} prime=4 keep=
dmv=$(dirname "$(readlink -f "$0")")/../target/dist/dmv
while getopts r:d:m:b:k option; do
    case $option in
        r) reps=$OPTARG ;;
        d) base=$OPTARG ;;
        m) prime=$OPTARG ;;
        b) dmv=$OPTARG ;;
        k) keep=yes ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || usage
set_name=$1
shift
case $set_name in
    small) steps=${*:-cp floor path bare git ssh git-ssh quic} ;;
    large) steps=${*:-cp floor path bare scp ssh quic quic-bare iroh} ;;
    *) usage ;;
esac
dmv=$(readlink -f "$dmv")
top=$(mktemp -d "$base/transfers.XXXXXX")
export HOME=$top/home LC_ALL=C
mkdir "$HOME"
running=()
finish() {
    [ ${#running[@]} = 0 ] || kill "${running[@]}" 2> /dev/null || true
    # Deleting many files slows down whatever creates files next.
    if [ -n "$keep" ]; then echo "left: $top" >&2; else rm -rf "$top"; fi
}
trap finish EXIT

wants() { case " $steps " in *" $1 "*) true ;; *) false ;; esac }

make_data() {
    mkdir "$top/files"
    if [ "$set_name" = large ]; then
        head -c 1G /dev/urandom > "$top/files/large"
        return
    fi
    local n
    for n in $(seq -w 0 99); do
        mkdir "$top/files/d$n"
        head -c 1000K /dev/urandom | split -b 1024 -a 3 -d - "$top/files/d$n/f"
    done
}

make_repositories() {
    cp -r "$top/files" "$top/work"
    "$dmv" -q init "$top/work"
    "$dmv" -q -C "$top/work" commit -m first
    "$dmv" -q clone --bare "$top/work" "$top/dmv"
    if wants git || wants git-ssh; then
        git config --global user.name bench
        git config --global user.email bench@localhost
        # It would begin to pack in the background, beside the next steps.
        git config --global gc.auto 0
        git init -q "$top/git"
        git --git-dir "$top/git/.git" --work-tree "$top/files" add -A
        git -C "$top/git" commit -q -m first
    fi
    mv "$top/work" "$top/trash-work"
}

# A daemon of our own, with keys that live as long as this script.
start_sshd() {
    local port=$((20000 + RANDOM % 20000))
    mkdir -m 700 "$top/ssh"
    ssh-keygen -q -t ed25519 -N '' -f "$top/ssh/host"
    ssh-keygen -q -t ed25519 -N '' -f "$top/ssh/user"
    cat > "$top/ssh/sshd_config" << END
Port $port
ListenAddress 127.0.0.1
HostKey $top/ssh/host
AuthorizedKeysFile $top/ssh/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
Subsystem sftp internal-sftp
END
    echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 "$top/ssh/host.pub")" > "$top/ssh/known"
    cat > "$top/ssh/config" << END
Host here
 HostName 127.0.0.1
 Port $port
 IdentityFile $top/ssh/user
 IdentitiesOnly yes
 UserKnownHostsFile $top/ssh/known
END
    "$(command -v sshd || echo /usr/sbin/sshd)" -D -e -f "$top/ssh/sshd_config" 2> "$top/ssh/log" &
    running+=($!)
    export DMV_SSH_COMMAND="ssh -F $top/ssh/config" GIT_SSH_COMMAND="ssh -F $top/ssh/config"
    export DMV_SSH_REMOTE=$dmv
    local n
    for n in $(seq 50); do
        ssh -F "$top/ssh/config" here true 2> /dev/null && return
        sleep 0.1
    done
    echo "skipped: the ssh daemon does not answer" >&2
    cat "$top/ssh/log" >&2
    exit 1
}

# The repository, served by key.
start_quic() {
    # A home of its own, and with it another key.
    "$dmv" -q -C "$top/dmv" trust "$("$dmv" id)" > /dev/null
    (cd "$top/dmv" && HOME=$top/far exec "$dmv" serve --listen 127.0.0.1:0 --json) > "$top/served" &
    running+=($!)
    quic=$(until_has 'dmv://[^"]*' "$top/served")
}

# What QUIC moves without dmv: an example of dmv-net.
start_bare_stream() {
    bare_stream=$(dirname "$dmv")/examples/bare_stream
    if [ ! -x "$bare_stream" ]; then
        echo "first: cargo build --profile dist -p dmv-net --features quic --example bare_stream" >&2
        exit 1
    fi
    "$bare_stream" send > "$top/bare" &
    running+=($!)
    iroh=$(until_has 'dmv://.*' "$top/bare")
}

# Prints what PATTERN finds in FILE, as soon as it does.
until_has() {
    local n
    for n in $(seq 100); do
        grep -o -m 1 "$1" "$2" && return
        sleep 0.1
    done
    echo "$2 does not have $1" >&2
    exit 1
}

# Only makes the files, with a thread for each core: the small ones, or the bytes of the large one
# twice, as a clone has them in its pack and in its worktree.
floor() {
    local floor
    floor=$(dirname "$dmv")/examples/floor
    case $set_name in
        small) "$floor" "$1" 100 1000 1024 ;;
        large) "$floor" "$1" 2 1 $((1 << 30)) ;;
    esac
}

run() {
    local out=$2
    case $1 in
        cp) cp -r "$top/files" "$out" ;;
        floor) floor "$out" ;;
        path) "$dmv" -q clone "$top/dmv" "$out" ;;
        bare) "$dmv" -q clone --bare "$top/dmv" "$out" ;;
        git) git clone -q --no-local "$top/git" "$out" ;;
        ssh) "$dmv" -q clone "ssh://here$top/dmv" "$out" ;;
        git-ssh) git clone -q "ssh://here$top/git" "$out" ;;
        quic) "$dmv" -q clone "$quic" "$out" ;;
        quic-bare) "$dmv" -q clone --bare "$quic" "$out" ;;
        iroh) "$bare_stream" take "$iroh" "$(stat -c %s "$top/files/large")" ;;
        scp) scp -q -F "$top/ssh/config" "here:$top/files/large" "$out" ;;
        *) usage ;;
    esac
}

# Seconds until all of it is durable.
measure() {
    # The first touch of free memory is slow in virtual machines that give it back.
    head -c "${prime}G" /dev/zero | tail -c "${prime}G" > /dev/null
    find "$top/files" "$top/dmv" -type f -exec cat {} + > /dev/null
    sync -f "$top"
    local start end
    start=$(date +%s.%N)
    run "$1" "$2"
    sync -f "$top"
    end=$(date +%s.%N)
    echo "$start $end" | awk '{ printf "%.3f\n", $2 - $1 }'
}

make_data
make_repositories
if wants ssh || wants git-ssh || wants scp; then start_sshd; fi
if wants quic || wants quic-bare; then start_quic; fi
if wants iroh; then start_bare_stream; fi
for rep in $(seq "$reps"); do
    for step in $steps; do
        seconds=$(measure "$step" "$top/out-$step-$rep")
        echo "$step $seconds" >> "$top/figures"
        echo "$rep: $step $seconds s" >&2
    done
done
for step in $steps; do
    awk -v s="$step" '$1 == s { print $2 }' "$top/figures" | sort -n |
        awk -v s="$step" '{ v[NR] = $1 } END {
            m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
            printf "%s %.2f (%.2f-%.2f)\n", s, m, v[1], v[NR] }'
done | awk 'NR == 1 { first = $2 } { printf "| %s | %s %s | %.2fx |\n", $1, $2, $3, $2 / first }'
