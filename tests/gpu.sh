#!/usr/bin/env bash
# usage: tests/gpu.sh   on a machine with a GPU, from a checkout: builds from scratch into build-gpu, runs every test
# and benchmark that needs a GPU, and prints a short table last. No network; under 8 minutes, after which the rest is left
# out, and said to be. What the machine lacks (Criterion, OpenBLAS, ...) is taken from .gpu/, if that is there. Fails when a
# test fails, or was left out; not when a figure is missed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
[ -e .gpu/env.sh ] && . .gpu/env.sh
export PATH=$PATH:/usr/local/cuda/bin RONDO_DEVICE=${RONDO_DEVICE:-cuda}
# Some images have the driver's libraries where the loader does not look.
[ -e /usr/local/nvidia/lib64 ] && export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64
build=${BUILD:-build-gpu}
began=$SECONDS
failed=0
table=()

BUDGET_S=${BUDGET_S:-480}
left() { echo $((BUDGET_S - (SECONDS - began))); }

# NAME: whether there is time left for it; otherwise its line of the table says so.
has_time() {
	[ "$(left)" -gt 0 ] && return
	table+=("$(printf '%-58s NOT RUN: the %d s are over' "$1" "$BUDGET_S")")
	failed=1
	return 1
}

# LIMIT_S COMMAND...: as timeout, and no longer than there is time.
within() {
	local limit=$1
	shift
	[ "$limit" -lt "$(left)" ] || limit=$(left)
	timeout "$limit" "$@"
}

# STATUS: what the table says of a command that did not end with 0.
outcome() {
	if [ "$1" -eq 124 ] && [ "$(left)" -le 0 ]; then
		echo "CUT OFF: the $BUDGET_S s are over"
	else
		echo "FAILED (status $1)"
	fi
}

say() { printf '\n== %s (at %d s)\n' "$*" $((SECONDS - began)); }

# NAME LIMIT_S COMMAND...: one line of the table.
test_line() {
	local name=$1 limit=$2
	shift 2
	has_time "$name" || return
	say "$name"
	if within "$limit" "$@"; then
		table+=("$(printf '%-58s ok' "$name")")
	else
		table+=("$(printf '%-58s %s' "$name" "$(outcome $?)")")
		failed=1
	fi
}

# NAME FACTOR ENVIRONMENT... -- rondo-bench's arguments: the time of one size, and what part of the bound that is.
# FACTOR times the size is what the ranks read and write; a copy within the device moves TB_S of it a second.
# Leaves the time in us, empty where there is none.
TB_S=${TB_S:-4.3}
us=
bench_line() {
	local name=$1 factor=$2 variables=() output
	shift 2
	while [ "$1" != -- ]; do variables+=("$1"); shift; done
	shift
	us=
	has_time "$name" || return
	say "$name"
	output=$(within 60 env "${variables[@]}" "$build/rondo-bench" "$@" -z 0 --device 2>&1)
	local status=$?
	printf '%s\n' "$output"
	[ $status -eq 0 ] || failed=1
	us=$(printf '%s\n' "$output" | awk '/^ +[0-9]/ { us = $6 } END { print us }')
	table+=("$(printf '%s\n' "$output" | awk -v name="$name" -v factor="$factor" -v tb="$TB_S" -v status=$status \
		-v outcome="$(outcome $status)" '
		/^ +[0-9]/ { size = $1; us = $6 }
		END {
			if (status || !us) { printf "%-58s %s", name, outcome; exit }
			printf "%-58s %10.2f us", name, us
			if (factor) printf "  %5.1f %% of the bound", 100 * factor * size / (tb * 1e6) / us
		}')")
}

# The all-reduce of bench_line just before, by PyTorch's gloo on CUDA tensors; OURS is that one's time.
gloo_line() {
	local name=$1 ours=$2 theirs
	shift 2
	has_time "$name" || return
	say "$name"
	if theirs=$(within 120 python3 tests/peers/torch_gloo.py "$@" 2>"$build/gloo.log"); then
		table+=("$(awk -v name="$name" -v ours="$ours" -v theirs="$theirs" 'BEGIN {
			printf "%-58s %10.2f us", name, theirs
			if (ours) printf "  %5.1f times ours", theirs / ours }')")
	else
		cat "$build/gloo.log"
		table+=("$(printf '%-58s not run: %s' "$name" "$(tail -1 "$build/gloo.log")")")
	fi
}

# RANKS: the second epoch of rondo-train, in images/s, and how much of the communication was hidden.
train_line() {
	local name="rondo-train, $1 rank(s) of 512 images" output
	has_time "$name" || return
	say "$name"
	output=$(within 60 "$build/train/rondo-train" --device cuda --ranks "$1" --batch 512 --epochs 2 \
		--data "$build/data" --dataset drawn 2>&1)
	local status=$?
	printf '%s\n' "$output"
	[ $status -eq 0 ] || failed=1
	table+=("$(printf '%s\n' "$output" | awk -v name="$name" -v status=$status \
		-v outcome="$(outcome $status)" '
		/ images\/s/ { line = $0 }
		END { if (status || !line) line = outcome; printf "%-58s %s", name, line }')")
}

say "building into $build"
rm -rf "$build"
boards=(tests/test_board*.c)
boards=("${boards[@]##*/}")
boards=("${boards[@]%.c}")
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake -S . -B "$build" "${generator[@]}" -DRONDO_CUDA=ON >"$build.log" 2>&1 &&
	cmake --build "$build" -j "$(nproc)" --target rondo-bench test_device test_device_missing test_steps test_gpu test_gpu_small \
		"${boards[@]}" >>"$build.log" 2>&1 ||
	{ tail -40 "$build.log"; exit 1; }
# The trainer is left out where OpenBLAS or zlib is missing.
cmake --build "$build" -j "$(nproc)" --target rondo-train test_train_cuda >>"$build.log" 2>&1 || tail -5 "$build.log"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || true

test_line "no device, and memory that is not ours" 30 env -u RONDO_DEVICE "$build/test_device_missing"
test_line "small calls: all types, failures, graphs" 90 "$build/test_gpu_small" --verbose --filter 'gpu_small/!(*pretend*)'
test_line "calls on GPUs, graphs, types" 150 "$build/test_gpu" --verbose --filter 'gpu/!(eight*)'
test_line "100,000 mixed calls of 8 ranks" 120 env GPU_CALLS="${GPU_CALLS:-100000}" "$build/test_gpu" --filter 'gpu/eight*on_gpus'

big=${BIG:-419430400} # 104,857,600 f32
bench_line "all_reduce 419 MB, 4 threads" 8 -- all_reduce -t 4 -b "$big" -e "$big" -n 20
# Sizes are of the larger buffer, as nccl-tests has them; each byte is read once, and written once to each who wants it.
bench_line "reduce_scatter 419 MB, 4 threads" 5 -- reduce_scatter -t 4 -b "$big" -e "$big" -n 20
bench_line "all_gather 419 MB, 4 threads" 5 -- all_gather -t 4 -b "$big" -e "$big" -n 20
bench_line "all_reduce 419 MB, 4 processes" 8 -- all_reduce --ranks 4 -b "$big" -e "$big" -n 20
bench_line "all_reduce 419 MB, 4 processes, staged" 8 RONDO_KERNEL=staged -- all_reduce --ranks 4 -b "$big" -e "$big" -n 3 -w 1
bench_line "all_reduce 64 MB, 4 threads" 8 -- all_reduce -t 4 -b 64M -e 64M -n 50
# The ring on one GPU: each byte is sent, received and combined there by kernels that exchange messages.
bench_line "all_reduce 419 MB, 4 threads, ring" 8 RONDO_ALGO=ring -- all_reduce -t 4 -b "$big" -e "$big" -n 5
bench_line "all_reduce 64 MB, 4 threads, ring" 8 RONDO_ALGO=ring -- all_reduce -t 4 -b 64M -e 64M -n 20
bench_line "all_reduce 64 MB, 4 processes" 8 -- all_reduce --ranks 4 -b 64M -e 64M -n 50
gloo_line "the same by PyTorch's gloo" "$us" --ranks 4 --size $((64 << 20))
bench_line "alltoall 419 MB, 4 threads" 8 -- alltoall -t 4 -b "$big" -e "$big" -n 20
bench_line "broadcast 419 MB, 4 threads" 5 -- broadcast -t 4 -b "$big" -e "$big" -n 20
bench_line "sendrecv 64 MB, 4 threads" 8 -- sendrecv -t 4 -b 64M -e 64M -n 20
# Each rank reads from the one before it: a byte is read once and written once, on each rank.
bench_line "sendrecv 64 MB, 2 threads" 4 -- sendrecv -t 2 -b 64M -e 64M -n 50
bench_line "sendrecv 64 MB, 2 processes" 4 -- sendrecv --ranks 2 -b 64M -e 64M -n 50
for type in f8e4m3 f8e5m2 half bfloat16; do
	bench_line "all_reduce 64 MB of $type, 4 threads" 8 -- all_reduce -d $type -t 4 -b 64M -e 64M -n 20
done
# Data with its flag, as the all-reduce; 16 KiB is the longest such call, and 32 KiB has barriers.
for call in barrier "broadcast -b 8 -e 8" "all_gather -b 1K -e 1K" "reduce_scatter -b 1K -e 1K" "alltoall -b 1K -e 1K" \
	"all_reduce -b 8K -e 8K" "all_reduce -b 32K -e 32K"; do
	# shellcheck disable=SC2086
	bench_line "${call%% -e*}, 2 threads, no graph" 0 -- $call -t 2 -n 2000
done
bench_line "all_reduce 8 B, 2 threads, no graph" 0 -- all_reduce -t 2 -b 8 -e 8 -n 2000
bench_line "all_reduce 8 B, 4 processes, 10,000 iterations" 0 -- all_reduce --ranks 4 -b 8 -e 8 -n 10000

if command -v nvidia-cuda-mps-control >/dev/null; then
	pipes=$(mktemp -d)
	export CUDA_MPS_PIPE_DIRECTORY=$pipes CUDA_MPS_LOG_DIRECTORY=$pipes
	nvidia-cuda-mps-control -d
	test_line "graphs, and small calls, among processes under MPS" 60 "$build/test_gpu_small" --verbose --filter 'gpu_small/so_it*'
	bench_line "all_reduce 419 MB, 4 processes, MPS" 8 -- all_reduce --ranks 4 -b "$big" -e "$big" -n 20
	bench_line "all_reduce 8 B, 4 processes, MPS" 0 -- all_reduce --ranks 4 -b 8 -e 8 -n 2000
	echo quit | timeout 20 nvidia-cuda-mps-control
	unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
	rm -rf "$pipes"
else
	table+=("$(printf '%-58s not run: nvidia-cuda-mps-control is not installed' MPS)")
fi

if [ -x "$build/train/rondo-train" ]; then
	test_line "training on GPUs, as on the CPU" 90 "$build/train/test_train_cuda"
	for ranks in 1 2 4 8; do
		train_line $ranks
	done
else
	table+=("$(printf '%-58s not run: it was not built (%s)' rondo-train "see $build.log")")
fi

if command -v compute-sanitizer >/dev/null; then
	for tool in memcheck racecheck; do
		for call in all_reduce alltoall; do
			test_line "compute-sanitizer $tool, $call" 40 compute-sanitizer --tool $tool --error-exitcode 3 \
				"$build/rondo-bench" $call --device -t 2 -b 8 -e 64K -f 64 -n 2 -w 1
		done
	done
else
	table+=("$(printf '%-58s not run: it is not installed' compute-sanitizer)")
fi

# What runs everywhere comes last: CI has it, too.
test_line "devices, pretended" 60 env -u RONDO_DEVICE "$build/test_device"
test_line "plans of messages, pretended" 60 env -u RONDO_DEVICE "$build/test_steps"
for board in "${boards[@]}"; do
	test_line "${board#test_}, pretended" 60 env -u RONDO_DEVICE "$build/$board"
done

printf '\n%s, %s, %d s\n' "$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | sort | uniq -c | xargs)" \
	"$(date -u +%F)" $((SECONDS - began))
printf '%s\n' "${table[@]}"
exit $failed
