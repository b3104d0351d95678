# Two guests, with RDMA over the wire: all collectives of 2 and 4 ranks, then all-reduces on networks that lose and delay
# packets. Right results.
# guests: 2
# limit: 600
# memory: 1024
# programs: rondo-bench rondo-run
make_rxe
run_collectives 1 verbs
run_collectives 2 verbs
# The wire has carried them.
sent=$(rdma_packets rxe0)
echo "$sent packets sent"
[ "$sent" -ge 2000 ] || fail "rxe0 has sent $sent packets only"

# A lost packet that nothing follows is sent again after 67 ms, in place of a second.
# rxe counts each lost packet of a message as a retry, and 7 as no limit.
export RONDO_IB_TIMEOUT=14 RONDO_IB_RETRY=7
reduce_under verbs loss 1%
tc -s qdisc show dev eth0 | grep -q 'dropped [1-9]' || fail "no packet was lost"
reduce_under verbs delay 20ms
