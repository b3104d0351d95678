# A network that is cut for five seconds during all-reduces over tcp: the results are right, for TCP sends again.
# guests: 2
# limit: 180
# programs: rondo-bench rondo-run
run_ranks 2 rondo-bench all_reduce --transport tcp -b 64K -e 1M -f 16 -n 8 >out &
if [ "$guest" = 0 ]; then
	await_text out '^ *65536 ' 60
	ip link set eth0 down
	sleep 5
	[ -d /proc/$! ] || fail "ended before the cut: $(cat out)"
	ip link set eth0 up
fi
wait $!
cat out
