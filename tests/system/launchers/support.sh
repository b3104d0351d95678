# Sourced by the tests of launchers: a scratch folder, and checks of a command's output.
# shellcheck shell=bash
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT RONDO_PORT RONDO_RENDEZVOUS_FD RONDO_LAUNCHER
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

skip() {
	echo "skipped: $*"
	exit 77
}

# try WHAT COMMAND...: fails where the command does. Its output is in $scratch/out.
try() {
	what=$1
	shift
	echo "$what"
	if ! timeout 100 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null; then
		echo "$what failed:"
		cat "$scratch/out" "$scratch/err"
		exit 1
	fi
}

# expect LINE...: the output of the last command has all of these lines.
expect() {
	for line; do
		grep -qxF -- "$line" "$scratch/out" && continue
		echo "no line \"$line\" in the output of $what:"
		cat "$scratch/out" "$scratch/err"
		exit 1
	done
}

# The output of examples/all_reduce with four ranks.
expect_sum_of_4() {
	expect "rank 0 of 4: the sum is 10" "rank 1 of 4: the sum is 10" "rank 2 of 4: the sum is 10" \
		"rank 3 of 4: the sum is 10"
}

# try_death WHAT LAUNCHER...: four ranks of rondo-bench, of which rank 2 dies by SIGKILL. The launcher must fail, and
# leave no rank behind. $dead is then the pid of rank 2. Needs $build.
try_death() {
	local what="$1: a rank dies" launcher pids pid i
	shift
	echo "$what"
	: >"$scratch/out"
	timeout 100 "$@" "$build/rondo-bench" all_reduce -b 8 -e 8 -n 100000000 \
		>"$scratch/out" 2>"$scratch/err" </dev/null &
	launcher=$!
	# The table of ranks comes when all have met.
	for ((i = 0; i < 600; i++)); do
		[ "$(grep -c '^#  Rank .* Pid ' "$scratch/out")" != 4 ] || break
		kill -0 $launcher 2>/dev/null || break
		sleep 0.1
	done
	mapfile -t pids < <(sed -n 's/^#  Rank .* Pid *\([0-9]*\) on .*/\1/p' "$scratch/out")
	dead=${pids[2]-}
	if [ ! "$dead" ] || ! kill -KILL "$dead" || wait $launcher; then
		echo "$what: the launcher should fail"
		cat "$scratch/out" "$scratch/err"
		exit 1
	fi
	for pid in "${pids[@]}"; do
		# The launcher need not wait for those that it kills.
		for ((i = 0; i < 100; i++)); do
			grep -qs rondo-bench "/proc/$pid/comm" || continue 2
			sleep 0.1
		done
		echo "$what: pid $pid is left"
		exit 1
	done
}
