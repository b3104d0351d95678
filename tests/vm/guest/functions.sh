# For the tests, which run in each guest: $guest is 0 or 1, $guests their number, and guest0 and guest1 their names.

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

# The RDMA device rxe0 on eth0: RoCE in software. Its GID 1 is the IPv4 address.
make_rxe() {
	modprobe crc32_generic # else rxe cannot add a device
	modprobe rdma_rxe
	modprobe rdma_ucm
	rdma link add rxe0 type rxe netdev eth0
	rdma link show rxe0/1 | grep -q 'state ACTIVE' || fail "rxe0 is not active: $(rdma link)"
}

# NETEM...: this guest's packets to the other are treated so (man tc-netem): "loss 1%".
impair() {
	modprobe sch_netem
	tc qdisc replace dev eth0 root netem limit 10000 "$@"
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
