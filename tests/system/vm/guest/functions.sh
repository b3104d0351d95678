# For the tests, which run in each guest: $guest is 0 or 1, $guests their number, and guest0 and guest1 their names.
# Wire N of $wires is ethN, with the address 10.0.N.1 in guest0 and 10.0.N.2 in guest1.

# WORDS...: ends the test.
fail() {
	echo "failed: $*"
	exit 1
}

# Waits until both guests have come here.
meetings=7000
meet() {
	meetings=$((meetings + 1))
	if [ "$guest" = 0 ]; then
		echo here | timeout 60 nc -l -p $meetings >/dev/null || fail "guest1 does not come"
		return
	fi
	for _ in $(seq 300); do
		! timeout 60 nc guest0 $meetings </dev/null 2>/dev/null | grep -q here || return 0
		usleep 200000
	done
	fail "guest0 does not come"
}

# PORT: waits until a program of this guest listens there.
await_listener() {
	for _ in $(seq 300); do
		! netstat -lnt | grep -q "[:.]$1 " || return 0
		usleep 100000
	done
	fail "nobody listens at port $1"
}

# An RDMA device rxeN on each wire ethN: RoCE in software. GID 1 is the IPv4 address.
make_rxe() {
	modprobe crc32_generic # else rxe cannot add a device
	modprobe rdma_rxe
	modprobe rdma_ucm
	for ((wire = 0; wire < wires; wire++)); do
		rdma link add rxe$wire type rxe netdev eth$wire
		rdma link show rxe$wire/1 | grep -q 'state ACTIVE' || fail "rxe$wire is not active: $(rdma link)"
	done
}

# DEVICE: the number of packets that this RDMA device has sent.
rdma_packets() {
	cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"
}

# NETEM...: on each wire, this guest's packets to the other are treated so (man tc-netem): "loss 1%".
impair() {
	modprobe sch_netem
	for ((wire = 0; wire < wires; wire++)); do
		tc qdisc replace dev eth$wire root netem limit 10000 "$@"
	done
}

# FILE TEXT SECONDS: waits until the file holds the text.
await_text() {
	for _ in $(seq $(($3 * 10))); do
		! grep -q -e "$2" "$1" || return 0
		usleep 100000
	done
	cat "$1"
	fail "$1 holds no '$2' after $3 s"
}

# RANKS PROGRAM...: this guest's part of a job of RANKS ranks in each guest.
run_ranks() {
	ranks=$1
	shift
	rondo-run --nnodes "$guests" --node-rank "$guest" --nproc-per-node "$ranks" \
		--master-addr guest0 "$@"
}

# RANKS TRANSPORT: all collectives on RANKS ranks in each guest, on odd sizes from 0 bytes to several messages, with
# their results checked.
run_collectives() {
	for collective in all_reduce reduce_scatter all_gather broadcast reduce alltoall gather scatter sendrecv barrier; do
		echo "$collective, $2, $1 ranks in each of $guests guests"
		run_ranks "$1" rondo-bench $collective --transport "$2" -d uint8 -b 0 -e 420K -f 73 -n 1 -w 0 >table 2>&1 ||
			fail "$(cat table)"
		! grep -E '^ +[0-9]' table || [ "$guest" = 0 ]
	done
}

# TRANSPORT NETEM...: all-reduces of one rank, then two, in each guest on such a network, with their results checked.
reduce_under() {
	local transport=$1
	shift
	echo "== $*"
	impair "$@"
	for ranks in 1 2; do
		meet
		run_ranks $ranks rondo-bench all_reduce --transport "$transport" -b 12 -e 1M -f 44 -n 2 -w 1
	done
	meet
	tc -s qdisc show dev eth0
}

# DEVICE COUNT SECONDS: waits until this RDMA device has sent that many packets more.
await_packets() {
	local goal=$(($(rdma_packets "$1") + $2))
	for _ in $(seq $(($3 * 10))); do
		[ "$(rdma_packets "$1")" -lt "$goal" ] || return 0
		usleep 100000
	done
	fail "$1 has not sent $2 packets in $3 s: $(cat out)"
}
