#!/usr/bin/env bash
# mpi.sh BUILD LIBRARY: a program of Rondo, rondo-bench and rondo-train under the mpirun of Open MPI and that of MPICH,
# without an MPI in them. Skips those that are missing, and is skipped where both are.
set -euo pipefail
# shellcheck source=support.sh
. "$(dirname "$0")/support.sh"
build=$1

# one_world NAME MPIRUN...: the processes are the ranks of one comm, and not N times one.
one_world() {
	local name=$1
	shift
	try "$name: a program" "$@" -n 4 "$build/examples/all_reduce"
	expect_sum_of_4
	# MPICH's mpiexec dies of SIGPIPE where its only process, even /bin/true, ends while mpiexec still starts it.
	try "$name: a program alone" "$@" -n 1 sh -c '"$0" && sleep 0.2' "$build/examples/all_reduce"
	expect "rank 0 of 1: the sum is 1"
	try "$name: two jobs at once" bash -c '"$@" & first=$!; "$@" && wait $first' sh "$@" -n 2 "$build/examples/all_reduce"
	[ "$(grep -cx 'rank [01] of 2: the sum is 3' "$scratch/out")" = 4 ] || { cat "$scratch/out"; exit 1; }
	try "$name: rondo-bench" "$@" -n 2 "$build/rondo-bench" all_reduce -b 8 -e 8 -t 2
	grep -q '^#  Rank  3 ' "$scratch/out" || { cat "$scratch/out"; exit 1; }
	try_death "$name" "$@" -n 4
	[ -x "$build/train/rondo-train" ] || return 0
	try "$name: rondo-train" "$@" -n 2 "$build/train/rondo-train" --dataset drawn --epochs 1
	grep -q 'Done! Parameters: identical on 2 ranks' "$scratch/out" || { cat "$scratch/out"; exit 1; }
}

tried=
if command -v mpirun.openmpi >/dev/null; then
	one_world "Open MPI" mpirun.openmpi
	# Its PMIx numbers the ranks as well.
	try "PMIx: a program" mpirun.openmpi -n 4 -x RONDO_LAUNCHER=pmix -x WORLD_SIZE=4 "$build/examples/all_reduce"
	expect_sum_of_4
	tried=yes
else
	echo "not tried: mpirun.openmpi (Debian: openmpi-bin)"
fi
if command -v mpiexec.mpich >/dev/null; then
	one_world "MPICH" mpiexec.mpich
	tried=yes
else
	echo "not tried: mpiexec.mpich (Debian: mpich)"
fi
[ "$tried" ] || skip "neither Open MPI nor MPICH is installed"
