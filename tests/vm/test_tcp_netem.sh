# All-reduces of 2 and 4 ranks over tcp, on networks that lose, delay and reorder packets: right results.
# guests: 2
# limit: 240
# programs: rondo-bench rondo-run

# Segments that TCP has received out of order.
out_of_order() {
	awk '/^TcpExt/ && !names { names = split($0, name); next }
		/^TcpExt/ { for (i = 1; i <= names; i++) if (name[i] == "TCPOFOQueue") print $i }' /proc/net/netstat
}

# NETEM...: all-reduces, with their results checked.
reduce_under() {
	echo "== $*"
	impair "$@"
	for ranks in 1 2; do
		meet
		run_ranks $ranks rondo-bench all_reduce --transport tcp -b 12 -e 1M -f 44 -n 2 -w 1
	done
	meet
	tc -s qdisc show dev eth0
}

reduce_under loss 1%
tc -s qdisc show dev eth0 | grep -q 'dropped [1-9]' || fail "no packet was lost"
reduce_under delay 20ms
# A quarter of the packets overtakes the others.
before=$(out_of_order)
reduce_under delay 5ms reorder 25%
after=$(out_of_order)
echo "$((after - before)) segments out of order"
[ "$after" -gt "$before" ]
