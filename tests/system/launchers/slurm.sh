#!/usr/bin/env bash
# slurm.sh BUILD LIBRARY: srun, sbatch and salloc start programs of Rondo on two nodes of a Slurm cluster, which
# cluster.sh makes. Skipped where it cannot.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ "${SLURM_CONF-}" = /run/slurm/slurm.conf ] || exec "$here/cluster.sh" "$0" "$@"
# shellcheck source=support.sh
. "$here/support.sh"
build=$1 library=$2 program=$1/examples/all_reduce
cd "$scratch"

try "two ranks on each node" srun -N 2 --ntasks-per-node 2 "$program"
expect_sum_of_4
try "one rank" srun -n 1 "$program"
expect "rank 0 of 1: the sum is 1"

# srun gives each node a rank, and then fills the first.
try "three ranks and one" srun -N 2 -n 4 "$program"
expect_sum_of_4
if [ -x /usr/bin/python3 ]; then
	try "the place of each rank" srun -N 2 -n 4 /usr/bin/python3 "$here/place.py" "$library"
	expect "slurm: rank 0 of 4, 0 of 3 here" "slurm: rank 1 of 4, 1 of 3 here" "slurm: rank 2 of 4, 2 of 3 here" \
		"slurm: rank 3 of 4, 0 of 1 here"
else
	echo "not tried: the place of each rank (no /usr/bin/python3)"
fi
printf 'n1\nn0\nn0\nn0\n' >hosts
# Nothing binds the tasks of this cluster.
try "the processors of a task" srun -N 2 --ntasks-per-node 1 -c 1 "$build/rondo-run" --nproc-per-node cpu \
	bash -c 'echo "$WORLD_SIZE here"'
expect "1 here"
SLURM_HOSTFILE=hosts try "rank 0 on the second node" srun -m arbitrary -n 4 "$program"
expect_sum_of_4

try "a heterogeneous job with rank 0 on the second node" srun -w n1 -n 1 "$program" : -w n0 -n 3 "$program"
expect_sum_of_4

for kind in pmi2 pmix; do
	# The plug-in of PMIx may be there without PMIx.
	if srun --mpi=list 2>&1 | grep -qw $kind && srun --mpi=$kind -n 1 true 2>/dev/null; then
		try "srun --mpi=$kind" srun --mpi=$kind -N 2 -n 4 "$program"
		expect_sum_of_4
	else
		echo "not tried: srun --mpi=$kind (it does not start a program here)"
	fi
done

if srun -n 1 env SLURM_STEP_TASKS_PER_NODE="2(x" "$program" 2>err; then
	echo "a list of tasks that is none should be refused"
	exit 1
fi
[ "$(grep -vc '^srun: ' err)" = 1 ] && grep -q 'SLURM_STEP_TASKS_PER_NODE is "2(x", which has no' err || {
	cat err
	exit 1
}

if [ -x "$build/train/rondo-train" ]; then
	try "rondo-train" srun -N 2 -n 2 "$build/train/rondo-train" --dataset drawn --epochs 1
	grep -q 'Done! Parameters: identical on 2 ranks' out || { cat out; exit 1; }
fi

try_death "srun" srun -N 2 -n 4
for rank in 0 1 3; do
	grep -q "rondo-bench: rank $rank: all_reduce: rank 2 (host n0, pid $dead) died" err || { cat err; exit 1; }
done
grep -q '^srun: error: n0: task 2: Killed' err || { cat err; exit 1; }

# The others would wait for it. With -K Slurm ends them.
echo "srun -K: a rank dies before all have met"
export program
if timeout 100 srun -K -N 2 -n 4 bash -c '[ $SLURM_PROCID != 2 ] || kill -KILL $$; exec "$program"' 2>err || [ $? = 124 ]; then
	echo "srun should fail within 100 s"
	cat err
	exit 1
fi

# Two steps of a job at once, and the script itself, which is one process.
cat >job <<END
#!/bin/sh
#SBATCH -N 2 -n 4 --overcommit --output=$scratch/out
srun -N 2 -n 2 --overlap "$program" & first=\$!
srun -N 2 -n 2 --overlap "$program"
second=\$?
wait \$first && [ \$second = 0 ] && RANK=0 WORLD_SIZE=1 "$program" && echo done
END
echo "sbatch: two steps at once"
sbatch --wait job >err || { cat err out; exit 1; }
expect "rank 0 of 1: the sum is 1" "done"
[ "$(grep -cx 'rank [01] of 2: the sum is 3' out)" = 4 ] || { cat out; exit 1; }

export build
# The command of docs/launchers.md.
nodes=(srun -N 2 --ntasks-per-node 1 bash -c '"$build/rondo-run" --nnodes 2 --node-rank $SLURM_NODEID \
	--master-addr $(scontrol show hostnames | head -1) --nproc-per-node 2 "$@"' sh)
try "a rondo-run on each node" "${nodes[@]}" "$program"
expect_sum_of_4
try_death "a rondo-run on each node" "${nodes[@]}"
grep -q "rank 2 (pid $dead) was killed by signal 9" err || { cat err; exit 1; }

for mpi in mpirun.openmpi mpiexec.mpich; do
	if command -v $mpi >/dev/null; then
		try "$mpi on two nodes" salloc -N 2 --ntasks-per-node 2 $mpi -n 4 "$program"
		expect_sum_of_4
	else
		echo "not tried: $mpi on two nodes"
	fi
done
