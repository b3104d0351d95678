# All-reduces of 2 and 4 ranks over tcp, on networks that lose, delay and reorder packets: right results.
# guests: 2
# limit: 240
# programs: rondo-bench rondo-run

# Segments that TCP has received out of order.
out_of_order() {
	awk '/^TcpExt/ && !names { names = split($0, name); next }
		/^TcpExt/ { for (i = 1; i <= names; i++) if (name[i] == "TCPOFOQueue") print $i }' /proc/net/netstat
}

reduce_under tcp loss 1%
tc -s qdisc show dev eth0 | grep -q 'dropped [1-9]' || fail "no packet was lost"
reduce_under tcp delay 20ms
# A quarter of the packets overtakes the others.
before=$(out_of_order)
reduce_under tcp delay 5ms reorder 25%
after=$(out_of_order)
echo "$((after - before)) segments out of order"
[ "$after" -gt "$before" ]
