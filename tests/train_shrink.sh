#!/usr/bin/env bash
# usage: tests/train_shrink.sh BUILD
# rondo-train --shrink under rondo-run --keep-going: one of three ranks is killed, and the others train to the end.
set -euo pipefail
build=$(realpath "$1")
folder=$(mktemp -d)
run=
trap '[ -z "$run" ] || kill -9 "$run" 2>/dev/null || true; rm -rf "$folder"' EXIT

# Waits until the output has a line with this text, for at most a minute.
await() {
	for ((i = 0; i < 600; i++)); do
		grep -q -- "$1" "$folder/out" 2>/dev/null && return
		read -r -t 0.1 <> <(:) || true
	done
	echo "no line with \"$1\":"
	cat "$folder/out"
	return 1
}

# The process of a rank of the job.
process_of() {
	local pid
	for pid in $(pgrep -f "$folder/data"); do
		if [ "$(cat "/proc/$pid/comm")" = rondo-train ] && tr "\0" "\n" <"/proc/$pid/environ" | grep -qx "RANK=$1"; then
			echo "$pid"
			return
		fi
	done
}

export OPENBLAS_NUM_THREADS=1
for victim in 2 0; do
	"$build/rondo-run" --keep-going --nproc-per-node 3 "$build/train/rondo-train" --shrink --epochs 2 \
		--dataset drawn --data "$folder/data" --optimizer adam --check-every 100 >"$folder/out" 2>&1 &
	run=$!
	await '^loss: '
	kill -9 "$(process_of $victim)"
	status=0
	wait "$run" || status=$?
	run=
	if [ $status != 0 ] || ! grep -q '^Going on with 2 ranks after step ' "$folder/out" ||
		! grep -q '^Done! Parameters: identical on 2 ranks' "$folder/out"; then
		echo "rank $victim was killed; exit status $status:"
		cat "$folder/out"
		exit 1
	fi
	# The loss of the first line, and that of the last.
	if ! awk '/^loss: / { if (!n++) first = $2; last = $2 } END { exit !(last < first / 2) }' "$folder/out"; then
		echo "the loss does not go down:"
		cat "$folder/out"
		exit 1
	fi
done
