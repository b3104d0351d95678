"""Writes a plan file, an all-gather in a ring: python3 ring_plan.py RANKS > ring.json"""
import json, sys

ranks = int(sys.argv[1])


def steps(rank):
    for i in range(ranks - 1):  # chunk number k is the block of rank k
        yield ["send", (rank + 1) % ranks, (rank - i) % ranks]
        yield ["recv", (rank - 1) % ranks, (rank - i - 1) % ranks]


json.dump({"format": "rondo-plan-file 1", "name": "my_ring", "collective": "all_gather",
           "ranks": ranks, "plans": [list(steps(rank)) for rank in range(ranks)]}, sys.stdout)
