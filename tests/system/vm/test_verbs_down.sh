# The only port fails while all-reduces run: each rank ends with an error.
# guests: 2
# wires: 2
# limit: 300
# programs: rondo-bench rondo-run
make_rxe
# With 7 retries, rxe would never end.
export RONDO_IB_DEVICE=rxe1 RONDO_IB_TIMEOUT=17
run_ranks 1 rondo-bench all_reduce --transport verbs -b 48K -e 48K -n 1 -w 0 -c 100000 >out 2>&1 &
if [ "$guest" = 0 ]; then
	await_packets rxe1 3000 120
	ip link set eth1 down
fi
! wait $! || fail "no error: $(cat out)"
cat out
# By a lack of answers, or because the device with the port finds no way to send. At times rxe forgets a request while
# its interface goes down, and no completion comes: then the ranks notice that they wait for each other.
grep -qE 'is out of reach by rxe1:1: (no answer|the device here cannot send)|wait for each other, and nothing comes' out
[ -z "$(ls /dev/shm)" ] || fail "left in /dev/shm: $(ls /dev/shm)"
