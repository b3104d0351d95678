# Rondo over InfiniBand verbs beside perftest on one RDMA device, then beside tcp. Prints medians of several rounds.
# limit: 1200
# memory: 1024
# cpus: 2
# clock: tsc
# programs: rondo-bench rondo-run rondo-check
rounds=5

# PROGRAM...: a program of perftest, with its server. It waits for that by itself.
perftest() {
	"$@" -d rxe0 -x 1 -F >server &
	await_listener 18515
	"$@" -d rxe0 -x 1 -F guest0
	wait $!
}

# COLUMN SIZE: that column of the line in which perftest or rondo-bench reports this size; of several, the first.
column() {
	awk -v "column=$1" -v "size=$2" '$1 == size && !found++ { print $column }'
}

# NAME: rondo-check's figure of this name, for a link over verbs.
figure() {
	sed -nE "s/^  ok      $1: ([0-9.]+) .*/\1/p" link
}

# SIZE TRANSPORT: microseconds that an all-reduce of two ranks takes, out of place.
all_reduce() {
	rondo-bench all_reduce --ranks 2 --transport "$2" -b "$1" -e "$1" -n 50 -c 0 | column 6 "$1"
}

# FILE: its median.
median() {
	sort -n "$1" | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

# WHAT RONDO PEER AIM: a row of a table, with the medians of two files, and their ratio.
row() {
	awk -v what="$1" -v rondo="$(median "$2")" -v peer="$(median "$3")" -v aim="$4" \
		'BEGIN { printf "| %s | %.2f | %.2f | %.2f | %s |\n", what, rondo, peer, rondo / peer, aim }'
}

make_rxe
for round in $(seq $rounds); do
	perftest ib_write_lat -s 8 -n 2000 | column 5 8 >>peer_latency
	perftest ib_write_bw -s 1048576 -n 60 | column 4 1048576 | awk '{ print $1 * 1.048576 }' >>peer_bandwidth
	rondo-check --transport verbs --measure >link
	figure latency >>latency
	figure bandwidth | awk '{ print $1 * 1000 }' >>bandwidth
	for size in 8 65536 1048576; do
		all_reduce $size verbs >>verbs_$size
		all_reduce $size tcp >>tcp_$size
	done
	echo "round $round of $rounds:" $(tail -qn 1 peer_latency latency peer_bandwidth bandwidth)
done

echo "| a link, medians of $rounds rounds | Rondo | perftest | ratio | aim |"
echo "|:---|---:|---:|---:|:---|"
row "latency, 8 bytes (µs)" latency peer_latency "at most 1.5"
row "bandwidth, 1 MiB (MB/s)" bandwidth peer_bandwidth "at least 0.85"
echo
echo "| all-reduce of 2 ranks | verbs (µs) | tcp (µs) | ratio | aim |"
echo "|:---|---:|---:|---:|:---|"
for size in 8 65536 1048576; do
	row "$size bytes" verbs_$size tcp_$size –
done
