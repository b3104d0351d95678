# Messages between two guests by InfiniBand verbs, without Rondo: RDMA crosses a wire.
# guests: 2
# limit: 120
make_rxe
ibv_devinfo -v -d rxe0 | grep -E 'transport|state|GID'
if [ "$guest" = 0 ]; then
	ibv_rc_pingpong -d rxe0 -g 1 >answers &
	await_listener 18515
	meet
	wait $!
	cat answers
else
	meet
	ibv_rc_pingpong -d rxe0 -g 1 guest0
fi
sent=$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts)
echo "$sent packets sent"
[ "$sent" -ge 1000 ]
