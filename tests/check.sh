#!/usr/bin/env bash
# check.sh SOURCE BUILD COMPILER RONDO_CHECK: the plug-ins of the pages pass, and rondo-check refuses them
# once they are broken. Each break is an edit of the page's own file.
set -euo pipefail

source=$1 build=$2 compiler=$3 check=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "check: $*" >&2
	exit 1
}

# passes SUMMARY ARGUMENTS...: it succeeds, and the last line is the summary.
passes() {
	local summary=$1
	shift
	"$check" "$@" >"$work/out" 2>&1 || fail "$*: refused: $(cat "$work/out")"
	[ "$(tail -n 1 "$work/out")" = "$summary" ] || fail "$*: $(cat "$work/out")"
	echo "ok: $*"
}

# build EXAMPLE EDIT: broken.so, which differs from the example by a sed command.
build() {
	sed -E "$2" "$source/docs/examples/$1" >"$work/broken.c"
	! cmp -s "$work/broken.c" "$source/docs/examples/$1" || fail "$2 changes nothing in $1"
	"$compiler" -shared -fPIC -w -I "$source/lib/include" "$work/broken.c" -o "$work/broken.so"
}

# prints STATUS LINE ARGUMENTS...: a line like LINE is among those printed, and that is the status.
prints() {
	local expected=$1 line=$2 status=0
	shift 2
	"$check" "$@" >"$work/out" 2>&1 || status=$?
	[ "$status" = "$expected" ] || fail "$*: status $status: $(cat "$work/out")"
	grep -Eq "$line" "$work/out" || fail "$*: no '$line' in: $(cat "$work/out")"
	echo "ok: $*: $(grep -E -m 1 "$line" "$work/out")"
}

# refuses KIND EXAMPLE EDIT LINE CASES...: a line like LINE is among those printed, and the status is 1.
refuses() {
	local kind=$1 example=$2 edit=$3 line=$4
	shift 4
	build "$example" "$edit"
	prints 1 "REFUSED $line" "--$kind" "$work/broken.so" --timeout "${timeout:-15}" "$@"
}

passes "34 ok, 0 refused, 13 skipped" --transport "$build/plugins/plugin_transport.so"
passes "3 ok, 0 refused, 0 skipped" --algorithm "$build/plugins/plugin_algorithm.so"
passes "1 ok, 0 refused, 0 skipped" --algorithm "$build/plugins/plugin_torus.so" --ranks 16
"${check%/*}/rondo-plan" draw star all_reduce --plugin "$build/plugins/plugin_algorithm.so" --svg "$work/star.svg" ||
	fail "rondo-plan does not draw the star"
grep -q '<title>rank 3, ' "$work/star.svg" || fail "the star has no rank 3"

# rondo-plan proves by the same code, and has the same status.
plan=${check%/*}/rondo-plan
"$plan" prove star --plugin "$build/plugins/plugin_algorithm.so" --ranks 6 --tsv >"$work/out"
[ "$(grep -cP '^star\t\w+\tok\t[0-9]+\t[01]\t0\tproved for ' "$work/out")" = 3 ] ||
	fail "prove star: $(cat "$work/out")"
status=0
"$plan" prove tilted all_reduce --plugin "$build/plugins/algorithm_FORGETS_ONE.so" >"$work/out" || status=$?
[ "$status" = 1 ] && grep -q '  REFUSED all_reduce: tilted, all_reduce, ' "$work/out" ||
	fail "prove tilted: status $status: $(cat "$work/out")"

transport() {
	refuses transport plugin_transport.c "$@"
}
# Loses the tag; ignores the comm; accepts no message before a receive; wakes no peer; misses a death; loses
# committed messages at the end; ignores a card; leaves a file open.
transport 's/\.tag = \*tag/.tag = { { 0 } }/' 'every_size.*: rank 0: message .*tag' \
	every_size_keeps_its_payload_and_tag
transport 's/if \(pending->hello.comm_id != .*/if (false)/; s/\|\|$/\&\& 0 ||/' \
	'another_comm_is_kept_out: .*a link between two comms is ready' another_comm_is_kept_out
transport 's/moved \|= pull\(link\);/;/' 'two_messages_each_way.*in vain' \
	two_messages_each_way_find_room_unasked
transport 's/!pending \|\| watch\(endpoint, fd\)/!pending/' 'a_killed_peer_wakes_a_sleeper: .*(wake-up was lost|slept in vain)' \
	a_killed_peer_wakes_a_sleeper
transport 's/got < 0 && errno == EAGAIN/got <= 0/' 'a_killed_peer_breaks.*: ' \
	a_killed_peer_breaks_the_link_after_its_last_message
transport 's/linger\(link, deadline\);/;/; s/^	push\(link\);$/;/' 'messages_outlive_their_sender_in_processes: ' \
	messages_outlive_their_sender_in_processes
transport 's/if \(card_size != .*/if (0)/' 'a_bad_card_is_an_error: .*was taken' a_bad_card_is_an_error
transport 's/close\(endpoint->listener\);/;/' 'nothing_is_left_behind: files stay open' \
	nothing_is_left_behind
# It crashes; it hangs.
transport 's/link->in_got = 0;$/abort();/' \
	'.*crashed \(Aborted\) in this case, in a function of the plug-in$' \
	reserving_twice_gives_the_same_room
timeout=3 transport 's/^	return moved;$/	for (;;) ;/' '.*hung for [23]\.[0-9] s in this case' \
	reserving_twice_gives_the_same_room

# A crash of the suite is not the plug-in's.
transport 's/link->out \+ sizeof\(struct header\);/(void *)4096;/' \
	'.*crashed \(Segmentation fault\) in this case, in the suite and in no function of the plug-in' \
	messages_arrive_in_order_through_many_wraps

# Rondo's own transports, by name; and the speed of links.
passes "1 ok, 0 refused, 0 skipped" --transport tcp processes_send_both_ways_at_once
prints 0 'skipped channels_do_not_mix: it links a rank to itself alone' --transport loop channels_do_not_mix
prints 0 'ok      latency: [0-9.]+ us one way, 8 bytes; median of [0-9]+$' --transport shm --measure
prints 0 'ok      bandwidth: [0-9.]+ GB/s, 1400 bytes each; median of 9 rounds$' \
	--transport "$build/plugins/packets_1400.so" --measure
timeout=60 transport 's/link->in_got = 0;$/abort();/' 'latency: .*(crashed|ended).*, in a function of the plug-in' \
	--measure
prints 2 'measure takes a transport, and no case' --measure --algorithm x

# Short messages fulfil the contract; too short ones do not.
passes "34 ok, 0 refused, 13 skipped" --transport "$build/plugins/packets_1400.so"
for packets in 64 64K; do
	passes "7 ok, 0 refused, 0 skipped" --transport "$build/plugins/packets_$packets.so" \
		every_size_keeps_its_payload_and_tag two_messages_each_way_find_room_unasked \
		messages_that_fill_the_way_pass_each_other_unasked \
		sleepers_take_in_what_they_did_not_ask_for \
		a_sleeper_takes_in_what_it_does_not_wait_for \
		messages_that_fill_the_way_go_round_unasked \
		who_awaits_one_rank_takes_in_what_another_sends
done
prints 1 'message_max is 32: a link must carry messages of 64 bytes' \
	--transport "$build/plugins/packets_32.so" every_size_keeps_its_payload_and_tag

# The hint for a debugger is right: the case then runs in rondo-check itself.
cuts=$build/plugins/packets_CUTS.so
prints 1 "^To debug: gdb --args $check --transport $cuts --no-fork every_size_keeps_its_payload_and_tag$" \
	--transport "$cuts" receiving_twice_shows_the_same_message every_size_keeps_its_payload_and_tag
prints 1 'REFUSED every_size.*: message [0-9]+ has 63 bytes, not 64' \
	--transport "$cuts" --no-fork every_size_keeps_its_payload_and_tag
build plugin_transport.c 's/link->in_got = 0;$/abort();/'
ASAN_OPTIONS=handle_abort=0 prints 134 '^transport nearby' \
	--transport "$work/broken.so" --no-fork reserving_twice_gives_the_same_room
prints 2 'no-fork runs one case of the suite' --transport "$cuts" --no-fork

algorithm() {
	refuses algorithm plugin_algorithm.c "$@" --ranks 8
}
# Never marks a value as complete; leaves out a rank; takes the root for rank 0; waits for its own
# message; crashes; never ends.
algorithm 's/rd_recv_reduce_last\(/rd_recv_reduce(/' 'all_reduce: star, all_reduce, 2 ranks.*rank 0'
algorithm 's/i <= others/i < others/' 'all_reduce: star, all_reduce, 2 ranks'
algorithm 's/problem->root \+ i/i/g' 'broadcast: star, broadcast, 2 ranks, root 1'
algorithm 's/^	int others =.*/	rd_recv(plan, rd_wrap(problem->rank + 1, problem->size), 0); &/' \
	'all_reduce: star, all_reduce, (1 rank|2 ranks),'
# Depends on the process.
algorithm 's/rd_wrap\(problem->root \+ i, problem->size\);/rd_wrap(problem->root + 1 + (i + getpid()) % others, problem->size);/' \
	'all_reduce: star, all_reduce, [0-9]+ ranks: two processes write different plans'
algorithm 's/^	int others =.*/	if (problem->size == 5) __builtin_trap(); &/' \
	'all_reduce: crashed \(.*\) in write\[\], for all_reduce on 5 ranks, root 0, rank 0'
timeout=3 algorithm 's/^	int others =.*/	if (problem->size == 3) for (;;) ; &/' \
	'all_reduce: hung for [0-9.]+ s in write\[\], for all_reduce on 3 ranks, root 0, rank 0'

# may_run SIZES: broken.so is the star, for all_reduce and where this holds of problem->size.
may_run() {
	build plugin_algorithm.c "s/^static const struct rd_algorithm star.*/static bool may_run(\
const struct rd_problem *problem) { return $1; } &/
		/\[RD_(REDUCE|BROADCAST)\] =/d; s/^	\.write =/	.may_run = may_run,\n&/"
}
# More ranks than any layout of the tests; and the numbers of proved and declined sizes.
may_run 'problem->size == 3 || problem->size == 1030 || problem->size == 1031'
prints 0 'ok      all_reduce: proved for 3, 1030..1031 ranks: 3 sizes; declined 1032$' \
	--algorithm "$work/broken.so" --ranks 1032
may_run 'problem->size == 3 \&\& !problem->layout'
prints 0 'all_reduce: proved for 3 ranks: 1 size; declined 10, and of 1 some roots or orders of ranks$' \
	--algorithm "$work/broken.so" --ranks 8
may_run 'problem->size > 100'
prints 0 'skipped all_reduce: nothing was proved: may_run\(\) declined 1\.\.[89], ' \
	--algorithm "$work/broken.so" --ranks 8
may_run 'problem->rank == 2'
prints 1 'REFUSED all_reduce: .*may_run\(\) says no to rank 0, yes to rank 2' \
	--algorithm "$work/broken.so" --ranks 8
# A crash of rondo-check itself, or its slowness, is not the plug-in's. (This plan is invalid.)
build plugin_algorithm.c 's/^	broadcast\(plan\);/	if (rd_problem_of(plan)->size == 4) __builtin_memset(plan, 0xf0, 512); else &/'
prints 3 'unknown all_reduce: rondo-check itself (crashed|ended the process).*, in no function of the plug-in, for all_reduce on 4 ranks, root 0$' \
	--algorithm "$work/broken.so" --ranks 8
prints 3 'unknown broadcast: not done within 1 s, at broadcast on [0-9]+ ranks, root [0-9]+: proved for 1\.\.[0-9]+ ranks; give more by --timeout, or fewer --ranks$' \
	--algorithm "$build/plugins/plugin_algorithm.so" --ranks 20000 --timeout 1

# A file that is no plug-in gets one line.
! "$check" --transport "$work/none.so" 2>"$work/out" || fail "what is not there was taken"
grep -q 'rondo-check: .*none.so: .*No such file' "$work/out" || fail "$(cat "$work/out")"
[ "$(grep -o none.so "$work/out" | wc -l)" = 1 ] || fail "named twice: $(cat "$work/out")"
echo text >"$work/here.so"
! (cd "$work" && "$check" --transport here.so) 2>"$work/out" || fail "what is no plug-in was taken"
grep -q 'the file that is here is ./here.so' "$work/out" || fail "$(cat "$work/out")"
! "$check" --transport '' 2>"$work/out" || fail "an empty path was taken"
grep -q "wants a value, not ''" "$work/out" || fail "$(cat "$work/out")"
! "$check" --algorithm "$build/plugins/plugin_transport.so" 2>"$work/out" || fail "the wrong kind was taken"
[ "$(wc -l <"$work/out")" = 1 ] || fail "$(cat "$work/out")"
status=0
"$check" --transport x no_such_case 2>/dev/null || status=$?
[ "$status" = 2 ] || fail "a case that is none: status $status"

status=0
"$check" --algorithm ring_4.json 2>"$work/out" || status=$?
[ "$status" = 2 ] && grep -q 'rondo-plan prove ring_4.json' "$work/out" || fail "a plan file: $(cat "$work/out")"

# The pages show the examples as they are.
page=$(<"$source/docs/writing-an-algorithm.md")
for example in plugin_algorithm plugin_torus; do
	[[ $page == *'```c'$'\n'"$(<"$source/docs/examples/$example.c")"$'\n''```'* ]] ||
		fail "docs/writing-an-algorithm.md does not show docs/examples/$example.c as it is"
done
example=$(<"$source/docs/examples/plugin_transport.c") block='' blocks=0 inside=
while IFS= read -r line; do
	case $line in
	'```c') inside=1 block= ;;
	'```')
		[[ $example == *"$block"* ]] || fail "docs/writing-a-transport.md shows what is not: $block"
		inside= blocks=$((blocks + 1))
		;;
	*) [ -z "$inside" ] || block+=${block:+$'\n'}$line ;;
	esac
done <"$source/docs/writing-a-transport.md"
[ "$blocks" -ge 5 ] || fail "docs/writing-a-transport.md shows $blocks pieces of code"
summary=$(grep -oE '[0-9]+ ok, 0 refused, [0-9]+ skipped' "$source/docs/writing-a-transport.md")
grep -qF "\"$summary\"" "$0" || fail "docs/writing-a-transport.md says: $summary"
echo "ok: the pages"
