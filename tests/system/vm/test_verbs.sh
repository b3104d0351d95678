# Rondo over InfiniBand verbs in one guest: the contract suite, and all collectives of 2 and 4 ranks, and
# those of 2 with checksums.
# limit: 600
# memory: 1024
# cpus: 2
# programs: rondo-bench rondo-run rondo-check
make_rxe
rondo-check --transport verbs --timeout 90
run_collectives 2 verbs
run_collectives 4 verbs
RONDO_CHECKSUM=1 run_collectives 2 verbs
