#!/usr/bin/env bash
# one_program.sh BUILD LIBRARY: one file, examples/all_reduce, is started by each launcher that there is, as it was
# built, and without options or variables of Rondo. The others are listed. Skipped with fewer than two.
set -euo pipefail
# shellcheck source=support.sh
. "$(dirname "$0")/support.sh"
here=$(cd "$(dirname "$0")" && pwd) build=$1 program=$1/examples/all_reduce
tried=0

# under LAUNCHER COMMAND...: the program is four ranks of one job. Exit status 77 of the command: it cannot be tried.
under() {
	echo "$1"
	what=$1
	shift
	local status=0
	timeout 100 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
	if [ $status = 77 ]; then
		echo "not tried: $what ($(head -1 "$scratch/out"))"
		return 0
	fi
	if [ $status != 0 ]; then
		echo "$what failed:"
		cat "$scratch/out" "$scratch/err"
		exit 1
	fi
	expect_sum_of_4
	tried=$((tried + 1))
}

# The same, where the command's program is installed.
under_installed() {
	if command -v "$2" >/dev/null; then
		under "$@"
	else
		echo "not tried: $1 ($2 is not installed)"
	fi
}

under "rondo-run" "$build/rondo-run" --nproc-per-node 4 "$program"
if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
	# This torchrun ends at once without -r and -t. It prints what the program prints, and puts a prefix before.
	torchrun() {
		command torchrun --standalone --nproc_per_node 4 -r 1 -t 1 --log_dir "$scratch/log" --no_python "$program" &&
			cat "$scratch"/log/*/attempt_0/*/stdout.log
	}
	export -f torchrun
	export scratch program
	under "torchrun" bash -c torchrun
else
	echo "not tried: torchrun (Debian: python3-torch)"
fi
under_installed "Open MPI" mpirun.openmpi -n 4 "$program"
under_installed "MPICH" mpiexec.mpich -n 4 "$program"
under "Slurm" "$here/cluster.sh" srun -N 2 -n 4 "$program"
under "Kubernetes, emulated" "$here/pods.sh" "$here/../../../docs/examples/kubernetes.yaml" "$program"
[ $tried -gt 1 ] || skip "no other launcher than rondo-run"
