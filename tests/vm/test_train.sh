# A short training: two ranks train over tcp, on a network that loses packets. Their parameters are the same.
# guests: 2
# limit: 180
# memory: 768
# programs: rondo-run train/rondo-train
impair loss 1%
# A text needs no drawing of digits, which takes longer than the rest.
run_ranks 1 rondo-train --model gpt-nano --data /functions.sh --batch 4 --steps 10 --check-every 5
