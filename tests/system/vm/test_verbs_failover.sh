# Failover of links whose queue pairs are moved to error: three RDMA devices in one guest.
# wires: 3
# limit: 600
# memory: 768
# programs: test_verbs_failover
make_rxe
test_verbs_failover --verbose >out || { cat out; fail "see above"; }
cat out
! grep -q SKIP out
