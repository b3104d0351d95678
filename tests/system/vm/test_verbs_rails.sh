# Two RDMA devices carry equal parts of an all-reduce, by built-in costs; a device beside the one that is named, nothing.
# guests: 2
# limit: 240
# wires: 2
# programs: rondo-bench rondo-run
make_rxe
export RONDO_REPRODUCIBLE=1 RONDO_CHANNELS=2 RONDO_DEBUG=INFO RONDO_DEBUG_SUBSYS=NET,PICK

# DEVICES PART...: an all-reduce, of whose packets the devices rxe0 and rxe1 send these parts, in per cent.
reduce_over() {
	local before0 before1 sent0 sent1
	meet
	before0=$(rdma_packets rxe0) before1=$(rdma_packets rxe1)
	RONDO_IB_DEVICE=$1 run_ranks 1 rondo-bench all_reduce --transport verbs -b 4M -e 4M -n 1 -w 1 >out 2>&1 ||
		fail "$(cat out)"
	meet
	sent0=$(($(rdma_packets rxe0) - before0)) sent1=$(($(rdma_packets rxe1) - before1))
	cat out
	echo "$1: $sent0 and $sent1 packets"
	[ $((sent0 + sent1)) -ge 10000 ] || fail "too few packets"
	for part in "$sent0 $2" "$sent1 $3"; do
		# shellcheck disable=SC2086
		set -- $part
		[ $((100 * $1)) -ge $(((sent0 + sent1) * ($2 - 5))) ] || fail "$1 packets are less than $2 %"
	done
}

reduce_over rxe0,rxe1 50 50
grep -q 'Using network verbs over 2 rails' out
grep -q 'all_reduce of 4194304 bytes.* channels 2,' out
reduce_over rxe1 0 100
grep -q 'all_reduce of 4194304 bytes.* channels 1,' out
