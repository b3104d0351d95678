# A port fails while all-reduces run over it, each with a check of its result: they go on over the other port. First the
# wire loses all packets, which only missing answers show. Then the interface goes down, which the device reports.
# guests: 2
# wires: 2
# limit: 500
# programs: rondo-bench rondo-run
make_rxe
modprobe sch_netem
# Rank 0 is reached by eth0. A request fails after some 4 s without an answer; with 7 retries, rxe would never end.
export RONDO_IB_DEVICE=rxe1,rxe0 RONDO_IB_TIMEOUT=17

# COMMAND...: in guest0, this cuts eth1 in the middle of the calls.
cut_by() {
	meet
	run_ranks 1 rondo-bench all_reduce --transport verbs -b 48K -e 48K -n 1 -w 0 -c 300 >out 2>&1 &
	if [ "$guest" = 0 ]; then
		await_packets rxe1 3000 120
		before=$(rdma_packets rxe0)
		"$@"
		echo "cut: $*"
		wait $! || fail "$(cat out)"
		after=$(rdma_packets rxe0)
		echo "$((after - before)) packets since then over rxe0"
		[ $((after - before)) -gt 1000 ] || fail "the calls were over before the cut: $(cat out)"
		grep -q '# Out of bounds values : 0 OK' out
	else
		wait $! || fail "$(cat out)"
	fi
	cat out
	grep 'goes on over rxe0:1' out
	meet
}

cut_by tc qdisc replace dev eth1 root netem loss 100%
[ "$guest" = 1 ] || tc qdisc del dev eth1 root
# The interface stays down: Linux 6.1 may crash where it frees rxe's packets after their queue pair (rxe_skb_tx_dtor).
cut_by ip link set eth1 down
