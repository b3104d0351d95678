#!/usr/bin/env bash
# usage: tests/gpu.sh   on a machine with a GPU, from a checkout: builds from scratch into build-gpu, runs every test
# and benchmark that needs a GPU, and prints a short table last. No network; under 8 minutes. What the machine lacks
# (Criterion, OpenBLAS, ...) is taken from .gpu/, if that is there. Fails when a test fails; not when a figure is missed.
set -uo pipefail
cd "$(dirname "$0")/.."
[ -e .gpu/env.sh ] && . .gpu/env.sh
export PATH=$PATH:/usr/local/cuda/bin RONDO_DEVICE=${RONDO_DEVICE:-cuda}
# Some images have the driver's libraries where the loader does not look.
[ -e /usr/local/nvidia/lib64 ] && export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64
build=${BUILD:-build-gpu}
began=$SECONDS
failed=0
table=()

say() { printf '\n== %s (at %d s)\n' "$*" $((SECONDS - began)); }

# NAME LIMIT_S COMMAND...: one line of the table.
test_line() {
	local name=$1 limit=$2
	shift 2
	say "$name"
	if timeout "$limit" "$@"; then
		table+=("$(printf '%-58s ok' "$name")")
	else
		table+=("$(printf '%-58s FAILED (status %d)' "$name" $?)")
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
	say "$name"
	output=$(timeout 60 env "${variables[@]}" "$build/rondo-bench" "$@" -z 0 --device 2>&1)
	local status=$?
	printf '%s\n' "$output"
	[ $status -eq 0 ] || failed=1
	us=$(printf '%s\n' "$output" | awk '/^ +[0-9]/ { us = $6 } END { print us }')
	table+=("$(printf '%s\n' "$output" | awk -v name="$name" -v factor="$factor" -v tb="$TB_S" -v status=$status '
		/^ +[0-9]/ { size = $1; us = $6 }
		END {
			if (status || !us) { printf "%-58s FAILED (status %d)", name, status; exit }
			printf "%-58s %10.2f us", name, us
			if (factor) printf "  %5.1f %% of the bound", 100 * factor * size / (tb * 1e6) / us
		}')")
}

# The all-reduce of bench_line just before, by PyTorch's gloo on CUDA tensors; OURS is that one's time.
gloo_line() {
	local name=$1 ours=$2 theirs
	shift 2
	say "$name"
	if theirs=$(timeout 120 python3 tests/peers/torch_gloo.py "$@" 2>"$build/gloo.log"); then
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
	say "$name"
	output=$(timeout 60 "$build/train/rondo-train" --device cuda --ranks "$1" --batch 512 --epochs 2 \
		--data "$build/data" --dataset drawn 2>&1)
	local status=$?
	printf '%s\n' "$output"
	[ $status -eq 0 ] || failed=1
	table+=("$(printf '%s\n' "$output" | awk -v name="$name" -v status=$status '
		/ images\/s/ { line = $0 }
		END { if (status || !line) line = "FAILED (status " status ")"; printf "%-58s %s", name, line }')")
}

say "building into $build"
rm -rf "$build"
boards=(test_board test_board_{failures,graphs,messages,staging,variable})
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake -S . -B "$build" "${generator[@]}" -DRONDO_CUDA=ON >"$build.log" 2>&1 &&
	cmake --build "$build" -j "$(nproc)" --target rondo-bench test_device test_steps test_gpu "${boards[@]}" >>"$build.log" 2>&1 ||
	{ tail -40 "$build.log"; exit 1; }
# The trainer is left out where OpenBLAS or zlib is missing.
cmake --build "$build" -j "$(nproc)" --target rondo-train test_train_cuda >>"$build.log" 2>&1 || tail -5 "$build.log"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || true

test_line "devices, pretended" 60 env -u RONDO_DEVICE "$build/test_device"
test_line "plans of messages, pretended" 60 env -u RONDO_DEVICE "$build/test_steps"
for board in "${boards[@]}"; do
	test_line "${board#test_}, pretended" 120 env -u RONDO_DEVICE "$build/$board"
done
test_line "calls on GPUs, graphs, types" 150 "$build/test_gpu" --verbose --filter 'gpu/!(eight*)'
test_line "100,000 mixed calls of 8 ranks" 120 env GPU_CALLS=${GPU_CALLS:-100000} "$build/test_gpu" --filter 'gpu/eight*on_gpus'

big=${BIG:-419430400} # 104,857,600 f32
bench_line "all_reduce 419 MB, 4 threads" 8 -- all_reduce -t 4 -b $big -e $big -n 20
# Sizes are of the larger buffer, as nccl-tests has them; each byte is read once, and written once to each who wants it.
bench_line "reduce_scatter 419 MB, 4 threads" 5 -- reduce_scatter -t 4 -b $big -e $big -n 20
bench_line "all_gather 419 MB, 4 threads" 5 -- all_gather -t 4 -b $big -e $big -n 20
bench_line "all_reduce 419 MB, 4 processes" 8 -- all_reduce --ranks 4 -b $big -e $big -n 20
bench_line "all_reduce 419 MB, 4 processes, staged" 8 RONDO_KERNEL=staged -- all_reduce --ranks 4 -b $big -e $big -n 3 -w 1
bench_line "all_reduce 64 MB, 4 threads" 8 -- all_reduce -t 4 -b 64M -e 64M -n 50
# The ring on one GPU: each byte is sent, received and combined there by kernels that exchange messages.
bench_line "all_reduce 419 MB, 4 threads, ring" 8 RONDO_ALGO=ring -- all_reduce -t 4 -b $big -e $big -n 5
bench_line "all_reduce 64 MB, 4 threads, ring" 8 RONDO_ALGO=ring -- all_reduce -t 4 -b 64M -e 64M -n 20
bench_line "all_reduce 64 MB, 4 processes" 8 -- all_reduce --ranks 4 -b 64M -e 64M -n 50
gloo_line "the same by PyTorch's gloo" "$us" --ranks 4 --size $((64 << 20))
bench_line "all_reduce 8 B, 2 threads, no graph" 0 -- all_reduce -t 2 -b 8 -e 8 -n 2000
bench_line "all_reduce 8 B, 4 processes, 10,000 iterations" 0 -- all_reduce --ranks 4 -b 8 -e 8 -n 10000

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
		test_line "compute-sanitizer $tool" 60 compute-sanitizer --tool $tool --error-exitcode 3 \
			"$build/rondo-bench" all_reduce --device -t 2 -b 8 -e 64K -f 64 -n 2 -w 1
	done
else
	table+=("$(printf '%-58s not run: it is not installed' compute-sanitizer)")
fi

printf '\n%s, %s, %d s\n' "$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | sort | uniq -c | xargs)" \
	"$(date -u +%F)" $((SECONDS - began))
printf '%s\n' "${table[@]}"
exit $failed
