#!/usr/bin/env bash
# Runs what the ordinary suite has no time for: harnesses that disturb the program, and checks of the build.
#
#   tests/tier.sh quick                   what the paths that you changed ask for
#   tests/tier.sh quick --since v0.1.0    ... since a revision of Git, instead of origin/main
#   tests/tier.sh full                    every harness: an hour
#   tests/tier.sh night                   the same with the counts of docs/reliability.md: hours
#   tests/tier.sh night --count 10000     another count for each harness
#   tests/tier.sh full --only kills,flips some of them
#   tests/tier.sh full --seed 7           the random numbers of an earlier run
#   tests/tier.sh full --release          with an optimised build
#   tests/tier.sh list                    what there is
#
# CARGO names the cargo to call. Each line leaves its output in target/tier/NAME.log.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}

# name | parts of paths that ask for it | package | test program | test | variable of the count | count in quick and full |
# count in night | what
harnesses() {
  cat <<'LIST'
kills|store,refs,repo,worktree,commands|dmv-cli|program|many_kills_at_any_moment_lose_nothing|DMV_COUNT|800|10000|kill -9 of every command, at random moments and system calls
faults|store,refs,repo,worktree,commands,vfs,fsutil|dmv-cli|program|every_failing_system_call_loses_nothing_and_is_named|DMV_COUNT|800|1000000|every system call of every command fails, once and for ever
powercuts|store,refs,fsutil,vfs|dmv-cli|program|many_power_cuts_lose_nothing_that_was_acknowledged|DMV_COUNT|150|1000|power cuts of a real ext4 (root)
flips-program|store,refs|dmv-cli|program|many_flipped_bits_give_no_wrong_answer|DMV_COUNT|1500|20000|flipped bits under the program
flips|store,refs,object|dmv-tests|library|every_flipped_bit_of_every_file_is_noticed_or_does_no_harm|DMV_COUNT|20000|400000|flipped bits under the library
crash|store,refs,vfs|dmv-tests|library|many_outcomes_of_a_crash_in_any_operation_lose_nothing|DMV_COUNT|5000|1000000|simulated crash points
beside|refs,locks,upkeep|dmv-cli|program|commits_beside_every_other_command_are_read_back_by_a_fresh_process|DMV_ROUNDS|60|2000|every command beside commits, in several processes
stops|refs,locks,upkeep|dmv-cli|program|a_command_that_is_stopped_anywhere_keeps_no_reader_and_no_writer_for_long|DMV_STOPS|30|500|a process that is stopped (SIGSTOP) holds up nobody for long
level|refs,upkeep/recover|dmv-tests|library|after_any_damage_to_the_database_recovery_gives_every_commit|DMV_FLIPS|2000|100000|garbage in the database and the log, and older copies of them
verbs|repo,worktree,merge|dmv-tests|library|every_command_does_what_the_model_says|DMV_VERBS|20000|1000000|random commands, every verb, in several worktrees of two repositories: files, commits and conflicts are what a plain model says, and undo and redo are exact
verbs-program|repo,worktree,commands|dmv-cli|program|every_command_line_does_what_the_model_says|DMV_VERBS|2000|50000|the same as processes
merges|merge,diff,history|dmv-tests|library|merges_are_those_that_git_makes|DMV_MERGE_ROUNDS|2500|6200|random merges beside Git: the same files, or conflicts at the same paths
bisects|history/bisect,verbs/bisect|dmv-tests|library|bisect::|DMV_BISECT_ROUNDS|100|2000|random histories with a fault: the commit that Git finds, in about as many tests
blames|diff/blame,history|dmv-tests|library|blame::|DMV_BLAME_ROUNDS|200|5000|random histories of a text: each line comes from the commit that Git names
replays|verbs/replay,merge|dmv-tests|library|replay::|DMV_REPLAY_ROUNDS|150|3000|random rebases and cherry-picks beside Git
deltas|store|dmv-tests|library|nothing_is_lost_in_random_histories|DMV_DELTA_STORIES|60|2000|random commits, repacks, gcs, drops, fetches and resets with frames that need others
nothing-lost|repo/files,repo/verbs,worktree|dmv-tests|library|whatever_a_command_overwrites_comes_back|DMV_LOST_STORIES|200|5000|random commands: what they overwrite comes back by undo
permuted|repo/files,repo/verbs,worktree/checkout|dmv-tests|library|every_verb_moves_permuted_names_into_place|DMV_PERMUTED|4000|100000|every verb between trees with permuted names, with untracked and ignored files beside, and undo and redo
gc|store,upkeep|dmv-tests|library|gc_frees_everything_that_nothing_needs_and_nothing_else|DMV_GC_STORIES|500|10000|random histories with gc, pushes, drops, expire, interrupted transfers and killed jobs: what is needed stays, everything else goes
drops|store,upkeep|dmv-tests|library|what_is_dropped_goes_and_nothing_else_and_comes_back_from_a_peer|DMV_DROPS|30|1000|random histories of files that share blocks: a drop frees what only the dropped files need, and a peer brings it back
freed|store,upkeep,publish|dmv-tests|library|what_a_command_names_is_here|DMV_MOMENTS|70|100000|before each operation on files of a command, another process frees what nothing names, and moves the rest
freeing|upkeep,keeping,sync|dmv-cli|program|repositories_that_free_space_beside_each_other_lose_nothing_and_leave_nothing|DMV_FREEING_ROUNDS|100|2000|four repositories free space beside commits, pushes and drops; processes and servers are killed or stopped
mutator|worktree,fsutil,repo/files|dmv-tests|library|who_edits_beside_many_commands_loses_nothing|DMV_EDITS|5000|100000|a mutator edits, replaces, moves and removes files while commands write them
shared-edits|store/write,store/block_sharing,worktree/ingest,files/stored|dmv-tests|library|edits_of_a_shared_file_change_nothing_that_was_committed|DMV_SHARED_EDITS|200|50000|a large file on XFS and btrfs is edited, cut, punched, mapped, cloned and restored between commits: what was committed stays (root)
symlinks|worktree,fsutil|dmv-tests|library|directories_that_become_symlinks_lead_no_command_outside|DMV_SWAPS|20000|100000|directories become symlinks that lead outside, while commands read and write there
import-kills|dmv-git,incoming|dmv-git|round_trip|an_import_that_is_killed_ends_equal_the_next_time|DMV_IMPORT_KILLS|30|100|imports from Git are killed at random moments; the next one ends equal
cut-clones|ops/clone,peers,session,sync|dmv-cli|program|a_clone_that_is_cut_off_stays_within_its_limits|DMV_CUT_CLONES|200|5000|partial clones are killed at random moments, then other commands run in them
lean|slice,upkeep,files,ops|dmv-cli|program|a_lean_clone_loses_nothing|DMV_LEAN_STORIES|40|1000|random commands in a lean clone, while its remote is here or away
undone|repo/verbs/undo,repo/files|dmv-tests|library|undo_in_any_order_does_what_the_model_says|DMV_UNDO_STORIES|300|10000|random commands that are undone and done again in any order
twins|subset,repo/files,merge|dmv-tests|library|the_same_work_in_a_subset_and_in_the_whole|DMV_SUBSET_STORIES|100|2000|the same random work in a subset and in the whole gives the same commits
partial|slice,reach,subset,ops|dmv-cli|program|parts_of_a_repository_do_what_the_model_says|DMV_PART_STORIES|60|2000|random commands in a repository and in clones of parts of it, while the others are here or away
interrupt|commands,job|dmv-cli|program|ctrl_c_ends_every_command_soon|DMV_INTERRUPTS|1|5|Ctrl-C at moments of every long command
growth|merge,diff,worktree,history|dmv-cli|program|memory_and_time_grow_with_the_amount|DMV_GROWTH|500|25000|memory and time against the amount of files
damage|store|dmv-tests|library|many_flipped_bytes_of_a_large_file_are_noticed||-|3000|flipped bytes of files of many chunks
absent|repo,supply|dmv-cli|program|what_looks_needs_no_content_and_what_lacks|DMV_ABSENT|1|1|commands that lack content, and all that only look after each of them
odd-files|platform,fsutil,refs,store|dmv-cli|program|odd_files::|DMV_ODD_FILES|1|1|every command with every file of .dmv in every wrong shape
answers|bucket|dmv-cli|program|commands_tell_the_truth_whatever|DMV_BUCKET_ANSWERS|1|1|every pair of lost, late and refused answers of a real bucket
ignoring|glob,ignore|dmv-tests|library|ignoring::|DMV_IGNORE_WORLDS|300|1500|random ignore files beside git check-ignore
buckets|bucket|dmv-bucket|lib|machines::|DMV_BUCKET_SCHEDULES|5000|100000|simulated writers at a bucket that loses, delays and repeats requests
cases|object,diff,history,merge,subset|dmv-core|lib||PROPTEST_CASES|256|4096|property tests with more cases
sync-histories|sync,reach|dmv-net|lib|sync::tests|PROPTEST_CASES|240|4800|random histories of whole and partial peers that are cut and crash: they agree in the end
groups|platform,fsutil,store/write,own|dmv-cli|program|group::|DMV_GROUPS|1|1|a repository that a group shares under every umask, and each file of one in turn that its user may not read (root)
claim-histories|claims|dmv-core|lib|peers_that_have_met_agree_after_any_history|DMV_CLAIM_HISTORIES|10000|1000000|random histories of three peers that claim, take over, release and meet with partitions: all that have met agree
claim-schedules|claims|dmv-bucket|lib|machines::claims::|DMV_BUCKET_SCHEDULES|5000|100000|simulated claims, takes and pushes at a bucket that loses, delays and repeats requests, and the hole without each rule
claim-races|claim,locks|dmv-cli|program|claim_races::|DMV_CLAIM_RACES|20|1000|three people claim a path at the same moment, at a path, over ssh, at a server and at a bucket: exactly one holds it
transfers|sync,session,wire,reach|dmv-tests|library|peers::||1|1|long transfers between peers
previews|dmv-preview|dmv-preview|previews|hostile::|DMV_PREVIEW_FLIPS|500|11000|truncated and damaged files for every decoder of previews
LIST
}

# name | parts of paths that ask for it | what | command
checks() {
  cat <<'LIST'
licences|Cargo.toml,Cargo.lock,deny.toml|licences and advisories of all crates|cargo deny check
features|Cargo.toml,dmv-cli/src,dmv-net/src,dmv-bucket/src/lib.rs|the program compiles without features and with each alone, from what such a build has|for one in '' git previews quic store web; do if ! $cargo clippy -p dmv-cli --locked --no-default-features --features "$one" -- -D warnings; then exit 1; fi; done
fuzz|object,store,refs,wire,fuzz|the fuzz targets compile|$cargo check --manifest-path fuzz/Cargo.toml
mutants|tests/mutants,reliability,store,refs|mutations that the tests of reliability must notice|tests/mutants.sh
packages|packaging,Cargo.toml|the packages are built and start|packaging/build && packaging/test
LIST
}

usage() { sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 2; }

tier=${1:-}; shift || usage
count= only= seed= since=origin/main profile=()
while [ $# -gt 0 ]; do
  case "$1" in
    --count) count=$2; shift 2 ;;
    --only) only=,$2,; shift 2 ;;
    --seed) seed=$2; shift 2 ;;
    --since) since=$2; shift 2 ;;
    --release) profile=(--release); shift ;;
    *) usage ;;
  esac
done
case "$tier" in
  list)
    harnesses | awk -F'|' '{ printf "%-16s %-10s %-10s %s\n", $1, $7, $8, $9 }'
    checks | awk -F'|' '{ printf "%-16s %-10s %-10s %s\n", $1, "", "", $3 }'
    exit ;;
  quick) changed=$(git diff --name-only "$since" -- ; git ls-files --others --exclude-standard) ;;
  full|night) ;;
  *) usage ;;
esac

# Succeeds if a line is wanted: by its name, or by the paths that were changed.
wanted() { # NAME PARTS
  if [ -n "$only" ]; then [[ "$only" == *",$1,"* ]]; return; fi
  [ "$tier" = quick ] || return 0
  grep -qE "(${2//,/|})" <<<"$changed"
}

logs=target/tier; mkdir -p "$logs"
passed=0 failed=0
verdict() { # STATUS NAME SECONDS LINE
  local word=ok
  if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) word=FAILED; fi
  printf '%-16s %-6s %5d s  %s\n' "$2" "$word" "$3" "${4:-nothing was said: $logs/$2.log}"
  [ "$1" = 0 ] || grep -E '^FAILED' "$logs/$2.log" | head -n 3 | cut -c1-300 || true
}

while IFS='|' read -r name parts package program test variable first second what <&3; do
  wanted "$name" "$parts" || continue
  n=$([ "$tier" = night ] && echo "$second" || echo "$first")
  [ "$n" != - ] || [ -n "$only" ] || continue
  log="$logs/$name.log" started=$SECONDS status=0
  target=(--test "$program"); [ "$program" != lib ] || target=(--lib)
  env ${variable:+"$variable=${count:-$n}"} ${seed:+DMV_SEED="$seed"} \
    "$cargo" test -q "${profile[@]}" -p "$package" "${target[@]}" -- \
    --include-ignored --nocapture $test >"$log" 2>&1 || status=$?
  ! grep -q '^test result: ok. 0 passed' "$log" || status=1
  # The harness's own line; without one, the test runner's.
  line=$(grep -E '^(harness |skipped: )' "$log" | tail -n 1) || line=$(grep '^test result' "$log" | tail -n 1) || true
  verdict "$status" "$name" $((SECONDS - started)) "$line"
done 3< <(harnesses)

while IFS='|' read -r name parts what command <&3; do
  wanted "$name" "$parts" || continue
  # In a full run, the checks that take longest are left to the night.
  [ "$tier" != full ] || [ -n "$only" ] || [[ "$name" != mutants && "$name" != packages ]] || continue
  started=$SECONDS status=0
  (eval "$command") >"$logs/$name.log" 2>&1 || status=$?
  verdict "$status" "$name" $((SECONDS - started)) "$what"
done 3< <(checks)
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
