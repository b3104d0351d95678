#!/usr/bin/env bash
# torch.sh BUILD LIBRARY: an unmodified PyTorch script runs under rondo-run, and with a comm of Rondo beside it under
# rondo-run, under torchrun, and started by hand. Debian's python3-torch; without it the test is skipped.
set -euo pipefail
here=$(dirname "$0") build=$1 library=$2
python=/usr/bin/python3
"$python" -c 'import torch.distributed as d; raise SystemExit(not d.is_gloo_available())' 2>/dev/null || {
	echo "skipped: $python has no torch with gloo (Debian: python3-torch)"
	exit 77
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Other tests run at the same time.
port=$((12000 + $$ % 8000))
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT RONDO_PORT RONDO_RENDEZVOUS_FD

# expect LINE...: the output of the last command has all of these lines.
expect() {
	for line; do
		grep -qxF -- "$line" "$scratch/out" && continue
		echo "no line \"$line\" in the output of $what:"
		cat "$scratch/out" "$scratch/err"
		exit 1
	done
}

# try WHAT COMMAND...
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

try "gloo under rondo-run" "$build/rondo-run" --nproc-per-node 2 "$python" "$here/gloo.py"
expect "rank 0 of 2: gloo 3" "rank 1 of 2: gloo 3"

try "both under rondo-run" "$build/rondo-run" --nproc-per-node 2 "$python" "$here/gloo.py" "$library"
expect "rank 0 of 2: gloo 3 3.0" "rank 1 of 2: gloo 3 3.0"

try "both under rondo-run with a port" "$build/rondo-run" --nproc-per-node 2 --master-port $port \
	"$python" "$here/gloo.py" "$library"
expect "rank 0 of 2: gloo 3 3.0" "rank 1 of 2: gloo 3 3.0"

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
