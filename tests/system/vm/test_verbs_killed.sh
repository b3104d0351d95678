# A rank is killed while all-reduces run: the other one ends with an error that names it.
# guests: 2
# limit: 300
# programs: rondo-bench rondo-run
make_rxe
run_ranks 1 rondo-bench all_reduce --transport verbs -b 48K -e 48K -n 1 -w 0 -c 100000 >out 2>&1 &
if [ "$guest" = 1 ]; then
	await_packets rxe0 3000 120
	kill -KILL $(pidof rondo-bench)
	wait $! || true
	cat out
else
	! wait $! || fail "no error: $(cat out)"
	cat out
	grep -q 'rank 1' out
fi
[ -z "$(ls /dev/shm)" ] || fail "left in /dev/shm: $(ls /dev/shm)"
