# The contract suite of transports, for verbs over rxe.
# limit: 600
# memory: 768
# cpus: 2
# programs: rondo-check
make_rxe
rondo-check --transport verbs --timeout 90
