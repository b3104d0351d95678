# From the tables and the floor of one run: what part of the floor Rondo's long calls reach.
# Over shared memory every byte of an input must be read, and every byte of an output written, once: at best at the
# rate of a copy past the caches by all cores. Over tcp what must cross does so at the rate of streams, from memory to
# memory, in both directions (a broadcast of two ranks: in one).
/^### / { transport = $2; sub(",", "", transport); ranks = $3 }
/copy  non-temporal +256M/ { memory = $NF }
/stream of +64M, one way/ { one_way = $(NF - 1) }
/stream of +64M, both ways/ { both_ways = 2 * $(NF - 1) }
/^\| (all_reduce|reduce_scatter|all_gather|broadcast) \| (16M|64M) / {
	gsub(/[ ~*]/, "")
	split($0, cell, "|")
	row[++rows] = transport " " ranks " " cell[2] " " cell[3] " " cell[4] " " cell[5]
}
function moved(transport, n, collective, size) {
	if (transport == "shm") {
		if (collective == "all_reduce") return 2 * n * size
		return collective == "broadcast" ? n * size : (n + 1) * size
	}
	if (collective == "all_reduce") return 2 * (n - 1) * size
	return (n - 1) * size
}
function part(us) {
	return us + 0 > 0 ? sprintf("%.0f %%", 100 * floor_us / us) : "–"
}
END {
	if (!rows || !memory || !both_ways) exit
	print "\n### Against that floor\n"
	print "| transport | ranks | collective | size | floor (µs) | Rondo | Rondo, registered |"
	print "|:---|---:|:---|---:|---:|---:|---:|"
	for (i = 1; i <= rows; i++) {
		split(row[i], at, " ")
		size = at[4] * 1048576
		rate = at[1] == "shm" ? memory : at[3] == "broadcast" && at[2] == 2 ? one_way : both_ways
		floor_us = moved(at[1], at[2], at[3], size) / rate / 1000
		printf "| %s | %d | %s | %s | %.0f | %s | %s |\n", at[1], at[2], at[3], at[4], floor_us, part(at[5]), part(at[6])
	}
}
