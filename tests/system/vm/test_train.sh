# A short training of two ranks, over tcp and over verbs, on a network that loses packets: the same losses and parameters.
# guests: 2
# limit: 300
# memory: 768
# programs: rondo-run train/rondo-train
make_rxe
impair loss 1%
# rxe counts each lost packet of a message as a retry, and 7 as no limit.
export RONDO_IB_TIMEOUT=14 RONDO_IB_RETRY=7
for transport in tcp verbs; do
	meet
	# A text needs no drawing of digits, which takes longer than the rest.
	RONDO_TRANSPORT=$transport run_ranks 1 rondo-train --model gpt-nano --data /functions.sh --batch 4 \
		--steps 4 --check-every 2 >$transport
	cat $transport
done
[ "$(rdma_packets rxe0)" -ge 1000 ] || fail "RDMA has not carried the messages: $(rdma_packets rxe0) packets"
if [ "$guest" = 0 ]; then
	for transport in tcp verbs; do
		grep -E 'loss: |^Done' $transport | sed 's/, [0-9]* tokens.*//' >$transport.results
	done
	grep -q '^Done! Parameters: identical on 2 ranks' tcp.results
	diff tcp.results verbs.results || fail "tcp and verbs give different results"
fi
