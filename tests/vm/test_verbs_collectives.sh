# Collectives of 2 and 4 ranks over verbs, with their results checked: RDMA crosses a wire.
# guests: 2
# limit: 240
# programs: rondo-bench rondo-run
make_rxe
before=$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts)
for collective in all_reduce all_gather; do
	for ranks in 1 2; do
		meet
		run_ranks $ranks rondo-bench $collective --transport verbs -b 12 -e 512K -f 32 -n 2 -w 1
	done
done
sent=$(($(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts) - before))
echo "$sent packets sent"
[ "$sent" -ge 1000 ]
