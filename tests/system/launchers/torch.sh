#!/usr/bin/env bash
# torch.sh BUILD LIBRARY: an unmodified PyTorch script runs under rondo-run, and with a comm of Rondo beside it under
# rondo-run, under torchrun, and started by hand. Debian's python3-torch; without it the test is skipped.
set -euo pipefail
# shellcheck source=support.sh
. "$(dirname "$0")/support.sh"
here=$(dirname "$0") build=$1 library=$2
python=/usr/bin/python3
"$python" -c 'import torch.distributed as d; raise SystemExit(not d.is_gloo_available())' 2>/dev/null ||
	skip "$python has no torch with gloo (Debian: python3-torch)"
# Other tests run at the same time.
port=$((12000 + $$ % 8000))
export GLOO_SOCKET_IFNAME=lo

try "gloo under rondo-run" "$build/rondo-run" --nproc-per-node 2 "$python" "$here/gloo.py"
expect "rank 0 of 2: gloo 3" "rank 1 of 2: gloo 3"

try "both under rondo-run" "$build/rondo-run" --nproc-per-node 2 "$python" "$here/gloo.py" "$library"
expect "rank 0 of 2: gloo 3 3.0" "rank 1 of 2: gloo 3 3.0"

try "both under rondo-run with a port" "$build/rondo-run" --nproc-per-node 2 --master-port $port \
	"$python" "$here/gloo.py" "$library"
expect "rank 0 of 2: gloo 3 3.0" "rank 1 of 2: gloo 3 3.0"

# @record writes the error file of a rank, here one without a name.
if PYTHON_EXEC=$python "$build/rondo-run" --nproc-per-node 2 "$here/record.py" >"$scratch/out" 2>&1 ||
	! grep -qx "rondo-run:   error: ValueError: the batch is empty" "$scratch/out"; then
	echo "no error of @record:"
	cat "$scratch/out"
	exit 1
fi

# This torchrun ends at once without -r and -t. They write the ranks' output to files; -t prints it, too.
try "both under torchrun" torchrun --standalone --nproc_per_node 2 -r 1 -t 1 --log_dir "$scratch/log" \
	"$here/gloo.py" "$library"
cat "$scratch"/log/*/attempt_0/*/stdout.log >>"$scratch/out" 2>/dev/null || true
expect "rank 0 of 2: gloo 3 3.0" "rank 1 of 2: gloo 3 3.0"

by_hand() {
	local pids=() rank
	for rank in 0 1; do
		RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port + 1)) "$python" "$here/gloo.py" "$library" &
		pids+=($!)
	done
	wait "${pids[0]}" && wait "${pids[1]}"
}
export -f by_hand
export here library python port
try "both by hand" bash -c by_hand
expect "rank 0 of 2: gloo 3 3.0" "rank 1 of 2: gloo 3 3.0"
