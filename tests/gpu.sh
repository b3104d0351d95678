#!/usr/bin/env bash
# usage: tests/gpu.sh [--small] [PART...]
# On a machine with a GPU, from a checkout, without a network: builds into build-gpu, measures, tests, and prints a
# table last, whatever failed or ended it; every line of it is shown, too, when it is known. All output is kept in
# build-gpu.log. Fails when anything failed, was skipped or was left out; not when a figure is missed.
#
# The parts, in this order where none is named: figures (those most wanted first, from rondo-bench alone), tests, sass
# (the kernels' machine code), sanitizers, more (figures), mps, training. Libraries that the machine lacks
# (Criterion, OpenBLAS, ...) are taken from .gpu/, if that is there.
#
#   BUILD=DIR     where to build                     BUDGET_S=480  after so many seconds the rest is left out
#   PROGRAMS=DIR  takes the programs of this build, and builds none
#   LIMIT_S=N     gives each step so many seconds
#   --small       short buffers and few calls, to try this script on the tests' driver:
#                 PROGRAMS=build LD_LIBRARY_PATH=build/driver tests/gpu.sh --small figures
set -uo pipefail
cd "$(dirname "$0")/.." || exit
# shellcheck source=/dev/null
[ -e .gpu/env.sh ] && . .gpu/env.sh
export PATH=$PATH:/usr/local/cuda/bin RONDO_DEVICE=${RONDO_DEVICE:-cuda}
# Some images have the driver's libraries where the loader does not look.
[ -e /usr/local/nvidia/lib64 ] && export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64

build=${BUILD:-build-gpu}
programs=${PROGRAMS:-$build}
BUDGET_S=${BUDGET_S:-480}
# Buffers, and what the table calls the longest; how often calls are made.
big=419430400 big_name='419 MB' # 104,857,600 f32
medium=64M
few=3 some=20 many=2000 calls=${GPU_CALLS:-100000}
if [ "${1:-}" = --small ]; then
	shift
	big=65536 big_name='64 KB' medium=32K few=1 some=2 many=20 calls=20
fi
parts=${*:-figures tests sass sanitizers more mps training}

# ---- The table ---------------------------------------------------------------------------------

began=$SECONDS
failed=0
table=()
log=$build.log
[ -n "${PROGRAMS:-}" ] || rm -rf "$build"
mkdir -p "$build" || exit
output=$build/step # of the present step
# The log is written to the end also when who reads the output has gone.
exec > >(trap '' INT TERM HUP && exec tee -p "$log") 2>&1
logger=$!

# NAME TEXT: a line of the table.
line() {
	table+=("$(printf '%-58s %s' "$1" "$2")")
	printf '%s\n' "${table[-1]}"
}

print_table() {
	printf '\n%s, %s, %d s\n' "$(git rev-parse --short HEAD 2>/dev/null || echo 'no commit')" "$(date -u +%F)" \
		$((SECONDS - began))
	printf '%s\n' "${table[@]}"
}

finish() {
	local status=$?
	trap '' INT TERM HUP
	end_step
	end_mps
	print_table
	# All of it is in the log when this script has ended.
	exec >&- 2>&-
	wait "$logger"
	exit $((status ? status : failed))
}
trap finish EXIT

# SIGNAL NUMBER: the step that it ends is in the table.
cut_off() {
	[ -n "$step" ] && cat "$output"
	line "${name:-$0}" "CUT OFF by SIG$1"
	exit $((128 + $2))
}
trap 'cut_off INT 2' INT
trap 'cut_off TERM 15' TERM
trap 'cut_off HUP 1' HUP

# ---- Steps -------------------------------------------------------------------------------------

# NAME: begins a step, whose line of the table says so where there is no time left for it.
name=
has_time() {
	name=$1
	printf '\n== %s (at %d s)\n' "$name" $((SECONDS - began))
	[ $((BUDGET_S - (SECONDS - began))) -gt 0 ] && return
	line "$name" "NOT RUN: the $BUDGET_S s are over"
	failed=1
	return 1
}

# The processes that the step began, wherever they went: all have its mark in their environment.
marked() {
	# Others' files cannot be read, or are gone.
	grep -lzxF "GPU_SH_STEP=$mark" /proc/[0-9]*/environ 2>/dev/null | tr -dc '0-9\n'
	return 0
}

# Ends what is left of the step: a process group alone would spare the workers of test programs.
step=
mark=
end_step() {
	local left rounds=5
	[ -n "$mark" ] || return
	while left=$(marked) && [ -n "$left" ] && [ $((rounds--)) -gt 0 ]; do
		# shellcheck disable=SC2086
		kill -KILL $left 2>/dev/null
	done
	mark='' step=''
}

# LIMIT_S COMMAND...: its output is in $output, too; with its status. Not longer than there is time.
run() {
	local limit=$1 left=$((BUDGET_S - (SECONDS - began))) status
	shift
	limit=${LIMIT_S:-$limit}
	[ "$limit" -lt "$left" ] || limit=$((left > 0 ? left : 1))
	mark=$$.$SECONDS.$RANDOM
	# In the background, so that a signal to this script does not wait for its end.
	GPU_SH_STEP=$mark setsid timeout -k 5 "$limit" "$@" >"$output" 2>&1 </dev/null &
	step=$!
	wait "$step"
	status=$?
	end_step
	cat "$output"
	return $status
}

# STATUS: what the table says of a command that did not end with 0; and what that said last.
outcome() {
	local words
	words=$(grep -hE '^(rondo|nvcc|CMake Error)|RONDO WARN|rror:' "$output" | grep -v '^\[' | tail -1 | cut -c1-120)
	if [ "$1" -ne 124 ] && [ "$1" -ne 137 ]; then
		echo "FAILED (status $1)${words:+: $words}"
	elif [ $((BUDGET_S - (SECONDS - began))) -le 0 ]; then
		echo "CUT OFF: the $BUDGET_S s are over"
	else
		echo "TIMED OUT${words:+: $words}"
	fi
}

# ---- Figures -----------------------------------------------------------------------------------

# NAME FACTOR ENVIRONMENT... -- rondo-bench's arguments: the time of one size, and what part of the bound that is.
# FACTOR times the size is what the ranks read and write; a copy within the device moves copy_tb_s of it a second.
# Leaves the time in us, empty where there is none.
us=
copy_tb_s=
bench_line() {
	local factor=$2 variables=() status size
	has_time "$1" || return
	shift 2
	while [ "$1" != -- ]; do variables+=("$1"); shift; done
	shift
	us=
	if [ ! -x "$programs/rondo-bench" ]; then
		failed=1
		line "$name" "NOT RUN: rondo-bench was not built (see $log)"
		return
	fi
	run 40 env RONDO_TIMEOUT_MS=8000 "${variables[@]}" "$programs/rondo-bench" "$@" -z 0 --device
	status=$?
	[ $status -eq 0 ] && read -r size us < <(awk '/^ +[0-9]/ { size = $1; us = $6 } END { print size, us }' "$output")
	if [ -z "$us" ]; then
		failed=1
		line "$name" "$(outcome $status)"
		return
	fi
	line "$name" "$(awk -v us="$us" -v bytes="$((factor * size))" -v copy="${copy_tb_s:-0}" 'BEGIN {
		printf "%10.2f us", us
		if (bytes && us > 0) printf "  %6.3f TB/s", bytes / us / 1e6
		if (bytes && us > 0 && copy > 0) printf "  %5.1f %% of a copy", 100 * bytes / us / 1e6 / copy }')"
}

# A rank alone copies its part within the device, by the driver's own copy: the bound of all that moves bytes there.
copy_line() {
	bench_line "a copy within the device, $big_name" 2 -- all_gather -t 1 -b $big -e $big -n $some
	[ -n "$us" ] && copy_tb_s=$(awk -v us="$us" -v bytes=$((2 * big)) 'BEGIN { if (us > 0) print bytes / us / 1e6 }')
}

figures() {
	copy_line
	bench_line "barrier, 2 threads" 0 -- barrier -t 2 -n $many
	bench_line "all_reduce 8 B, 2 threads" 0 -- all_reduce -t 2 -b 8 -e 8 -n $many
	# The calls of one launch, made once; the launches are timed.
	bench_line "all_reduce 8 B in a captured graph, 2 threads" 0 -- \
		all_reduce -t 2 -b 8 -e 8 -n $((many / 2)) -G 20
	bench_line "all_reduce 64 KB, 2 threads" 0 -- all_reduce -t 2 -b 64K -e 64K -n $some
	bench_line "all_reduce $medium, 4 threads" 8 -- all_reduce -t 4 -b $medium -e $medium -n $some
	bench_line "all_reduce $big_name, 4 threads" 8 -- all_reduce -t 4 -b $big -e $big -n $some
	# Sizes are of the larger buffer, as nccl-tests has them; each byte is read once, and written once to each who
	# wants it.
	bench_line "reduce_scatter $big_name, 4 threads" 5 -- reduce_scatter -t 4 -b $big -e $big -n $some
	bench_line "all_gather $big_name, 4 threads" 5 -- all_gather -t 4 -b $big -e $big -n $some
	bench_line "all_reduce 8 B, 4 processes" 0 -- all_reduce --ranks 4 -b 8 -e 8 -n $many
	bench_line "all_reduce $medium, 4 processes" 8 -- all_reduce --ranks 4 -b $medium -e $medium -n $some
	medium_us=$us
	bench_line "all_reduce $big_name, 4 processes" 8 -- all_reduce --ranks 4 -b $big -e $big -n $some
}

# The last all-reduce of processes, by PyTorch's gloo on CUDA tensors.
gloo_line() {
	has_time "all_reduce 64M, 4 processes, by PyTorch's gloo" || return
	if run 90 python3 bench/peers/torch_gloo.py --ranks 4 --size $((64 << 20)); then
		line "$name" "$(awk -v ours="${medium_us:-0}" -v theirs="$(tail -1 "$output")" 'BEGIN {
			printf "%10.2f us", theirs
			if (ours > 0) printf "  %5.1f times ours", theirs / ours }')"
	else
		line "$name" "not run: $(tail -1 "$output")"
	fi
}

more() {
	local type call
	gloo_line
	bench_line "all_reduce $big_name, 4 processes, staged" 8 RONDO_KERNEL=staged -- \
		all_reduce --ranks 4 -b $big -e $big -n $few -w 1
	# The ring on one GPU: each byte is sent, received and combined there by kernels that exchange messages.
	bench_line "all_reduce $big_name, 4 threads, ring" 8 RONDO_ALGO=ring -- all_reduce -t 4 -b $big -e $big -n $few
	bench_line "all_reduce $medium, 4 threads, ring" 8 RONDO_ALGO=ring -- all_reduce -t 4 -b $medium -e $medium -n $some
	bench_line "alltoall $big_name, 4 threads" 8 -- alltoall -t 4 -b $big -e $big -n $some
	bench_line "broadcast $big_name, 4 threads" 5 -- broadcast -t 4 -b $big -e $big -n $some
	bench_line "sendrecv $medium, 4 threads" 8 -- sendrecv -t 4 -b $medium -e $medium -n $some
	# Each rank reads from the one before it: a byte is read once and written once, on each rank.
	bench_line "sendrecv $medium, 2 threads" 4 -- sendrecv -t 2 -b $medium -e $medium -n $some
	bench_line "sendrecv $medium, 2 processes" 4 -- sendrecv --ranks 2 -b $medium -e $medium -n $some
	for type in f8e4m3 f8e5m2 half bfloat16; do
		bench_line "all_reduce $medium of $type, 4 threads" 8 -- \
			all_reduce -d $type -t 4 -b $medium -e $medium -n $some
	done
	# Data with its flag, as the all-reduce; 16 KiB is the longest such call, and 32 KiB has barriers.
	for call in "broadcast -b 8 -e 8" "all_gather -b 1K -e 1K" "reduce_scatter -b 1K -e 1K" "alltoall -b 1K -e 1K" \
		"all_reduce -b 8K -e 8K" "all_reduce -b 32K -e 32K"; do
		# shellcheck disable=SC2086
		bench_line "${call%% -e*}, 2 threads, no graph" 0 -- $call -t 2 -n $many
	done
	# Half of them in place.
	bench_line "all_reduce 8 B, 4 processes, $((5 * many)) calls" 0 -- all_reduce --ranks 4 -b 8 -e 8 -n $((5 * many / 2))
	test_line "$calls mixed calls of 8 ranks" 120 GPU_CALLS="$calls" -- test_gpu --filter 'gpu/eight*'
}

# ---- Tests -------------------------------------------------------------------------------------

# The table's text for a test program, by its own report: how many tests passed, and which did not.
summary() {
	awk '
		/^\[PASS\]/ { passed++ }
		/^\[SKIP\]/ && !/: Test is disabled/ { skipped++; reason = $0; sub(/^[^:]*::[^:]*: /, "", reason) }
		/^\[(FAIL|CRASH)\]/ { which = $2; sub(/.*::/, "", which); sub(/:$/, "", which); wrong = wrong " " which }
		/^\[RUN *\]/ { begun = $NF; sub(/.*::/, "", begun) }
		/^\[(PASS|FAIL|CRASH|SKIP)\]/ { begun = "" }
		END {
			printf "%d passed", passed
			if (skipped) printf ", %d SKIPPED: %s", skipped, reason
			if (wrong) printf ", failed:%s", wrong
			if (begun) printf ", not ended: %s", begun
		}' "$output"
}

# NAME LIMIT_S ENVIRONMENT... -- PROGRAM ARGUMENTS...: one test at a time, for they share the GPU.
test_line() {
	local limit=$2 variables=() program status text
	has_time "$1" || return
	shift 2
	while [ "$1" != -- ]; do variables+=("$1"); shift; done
	program=$programs/$2
	shift 2
	if [ ! -x "$program" ]; then
		failed=1
		line "$name" "NOT RUN: $program was not built (see $log)"
		return
	fi
	run "$limit" env "${variables[@]}" "$program" -j1 --verbose --color=never --encoding=C "$@"
	status=$?
	text=$(summary)
	if [ $status -ne 0 ]; then
		text="$(outcome $status), $text"
	elif [[ $text != *SKIPPED* ]] && [[ $text != 0\ * ]]; then
		line "$name" "ok, $text"
		return
	fi
	failed=1
	line "$name" "$text"
}

tests() {
	[ -n "${PROGRAMS:-}" ] || build_step "tests built" 150 test_device_missing test_gpu test_gpu_small
	test_line "small calls: all types, failures, graphs" 90 -- test_gpu_small \
		--filter 'gpu_small/!(a_launch_passes*|so_it_is_among_processes_under_mps)'
	test_line "calls captured in graphs" 40 -- test_gpu --filter 'gpu/calls_are_captured*'
	test_line "calls on GPUs: types, transfers" 150 -- test_gpu --filter 'gpu/!(eight*|calls_are_captured*)'
	test_line "no device, and memory that is not ours" 30 -u RONDO_DEVICE -- test_device_missing
}

# ---- Tools of CUDA's ---------------------------------------------------------------------------

# The first fault says which kernel has it.
sass() {
	local status
	has_time "the kernels' machine code" || return
	run 60 tests/sass.sh "$programs/cuda"
	status=$?
	if [ $status -eq 0 ]; then
		line "$name" ok
	elif [ $status -eq 77 ]; then
		line "$name" "not run: $(tail -1 "$output")"
	else
		failed=1
		line "$name" "$(outcome $status), $(grep -m1 '^sm_' "$output")"
	fi
}

# TOOL CALL: of two processes that take turns. The tools run one kernel at a time, so kernels that wait for each other
# would never meet under them.
sanitizer_line() {
	has_time "compute-sanitizer $1, $2, stepped" || return
	run 40 env RONDO_KERNEL=stepped RONDO_TIMEOUT_MS=30000 compute-sanitizer --tool "$1" --target-processes all \
		--error-exitcode 3 "$programs/rondo-bench" "$2" --device --ranks 2 -b 8 -e 64K -f 64 -n 2 -w 1
	local status=$?
	if grep -q 'Device not supported' "$output"; then
		line "$name" "not run: $(grep -m1 -o 'Device not supported.*' "$output")"
	elif [ $status -eq 0 ]; then
		line "$name" ok
	else
		failed=1
		line "$name" "$(outcome $status)"
	fi
}

sanitizers() {
	local tool call
	if ! command -v compute-sanitizer >/dev/null; then
		line compute-sanitizer "not run: it is not installed"
		return
	fi
	for tool in memcheck racecheck; do
		for call in all_reduce alltoall; do
			sanitizer_line $tool $call
		done
	done
}

# ---- MPS ---------------------------------------------------------------------------------------

mps=
end_mps() {
	[ -n "$mps" ] || return
	echo quit | timeout 20 nvidia-cuda-mps-control
	unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
	rm -rf "$mps"
	mps=
}

# Whether processes on one GPU run side by side now: else the lines would be of something else. These are more than a
# machine has GPUs, so some share one.
has_mps() {
	run 30 env RONDO_DEBUG=INFO RONDO_DEBUG_SUBSYS=ROUTE "$programs/rondo-bench" barrier --ranks 9 --device -n 1 -w 0 &&
		grep -q 'device [0-9]*: fused' "$output"
}

mps() {
	has_time MPS || return
	if ! command -v nvidia-cuda-mps-control >/dev/null; then
		line MPS "not run: nvidia-cuda-mps-control is not installed"
		return
	fi
	mps=$(mktemp -d)
	export CUDA_MPS_PIPE_DIRECTORY=$mps CUDA_MPS_LOG_DIRECTORY=$mps
	timeout 20 nvidia-cuda-mps-control -d
	if has_mps; then
		bench_line "all_reduce $big_name, 4 processes, MPS" 8 -- all_reduce --ranks 4 -b $big -e $big -n $some
		bench_line "all_reduce 8 B, 4 processes, MPS" 0 -- all_reduce --ranks 4 -b 8 -e 8 -n $many
		test_line "graphs, and small calls, among processes under MPS" 60 -- test_gpu_small --filter 'gpu_small/so_it*'
	else
		line MPS "not run: $(cat "$mps"/*.log 2>/dev/null | grep -iE 'error|fail|not' | tail -1 | cut -c1-90)"
	fi
	end_mps
}

# ---- Training ----------------------------------------------------------------------------------

# RANKS PRECISION: the second epoch of rondo-train, in images/s, and how much of the communication was hidden.
train_line() {
	local status text suffix=
	[ "$2" = f32 ] || suffix=", $2"
	has_time "rondo-train, $1 rank(s) of 512 images$suffix" || return
	run 60 env RONDO_TIMEOUT_MS=8000 "$programs/train/rondo-train" --device cuda --ranks "$1" --precision "$2" \
		--batch 512 --epochs 2 --data "$build/data" --dataset drawn
	status=$?
	text=$(grep ' images/s' "$output" | tail -1)
	if [ $status -ne 0 ] || [ -z "$text" ]; then
		failed=1
		text=$(outcome $status)
	fi
	line "$name" "$text"
}

training() {
	local ranks trainer_test
	# It is left out where OpenBLAS or zlib is missing.
	[ -n "${PROGRAMS:-}" ] || build_step "rondo-train built" 90 rondo-train
	if [ ! -x "$programs/train/rondo-train" ]; then
		line rondo-train "NOT RUN: it was not built (see $log)"
		failed=1
		return
	fi
	for ranks in 1 2 4 8; do
		train_line $ranks f32
	done
	train_line 1 bf16
	train_line 1 f16
	[ -n "${PROGRAMS:-}" ] || build_step "the trainer's tests built" 90 "${trainer_tests[@]}"
	for trainer_test in "${trainer_tests[@]}"; do
		test_line "training on GPUs, as on the CPU: ${trainer_test#test_train_}" 90 -- "train/$trainer_test"
	done
}

# ---- Building ----------------------------------------------------------------------------------

trainer_tests=(tests/unit/train/device/test_cuda*.c)
trainer_tests=("${trainer_tests[@]##*/test_}")
trainer_tests=("${trainer_tests[@]%.c}")
trainer_tests=("${trainer_tests[@]/#/test_train_}")

# NAME LIMIT_S TARGET...: configured for tests from the first target on that is one. A target that does not build
# costs no other.
testing=OFF
keep_going=(-k)
build_step() {
	local limit=$2 status
	has_time "$1" || return
	shift 2
	[[ " $* " == *" test_"* ]] && testing=ON
	run "$limit" cmake -S . -B "$build" "${generator[@]}" -DRONDO_CUDA=ON -DBUILD_TESTING=$testing "${architectures[@]}" &&
		run "$limit" cmake --build "$build" -j "$(nproc)" --target "$@" -- "${keep_going[@]}"
	status=$?
	if [ $status -eq 0 ]; then
		line "$name" "ok, $((SECONDS - began)) s since the beginning"
	else
		failed=1
		line "$name" "$(outcome $status)"
	fi
	return $status
}

# Describes the machine. Kernels are compiled for its GPUs alone.
generator=()
architectures=()
probe() {
	local capability
	has_time "the machine" || return
	run 60 bash -c 'uname -srm; nproc; free -g; df -h .; ldd --version | head -1; gcc --version | head -1
		cmake --version | head -1; nvcc --version | tail -2; nvidia-smi; env | grep -E "^(CUDA|RONDO)"'
	command -v ninja >/dev/null && generator=(-G Ninja) keep_going=(-k 0)
	capability=$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -uV | tr -d '. ' |
		paste -sd';')
	[[ $capability =~ ^([89]|1[0-9])[0-9](;([89]|1[0-9])[0-9])*$ ]] &&
		architectures=("-DRONDO_CUDA_ARCHITECTURES=$capability")
	line "the machine" "$(timeout 20 nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null |
		sort | uniq -c | xargs), $(nproc) cores"
}

# ---- All of it ---------------------------------------------------------------------------------

probe
[ -n "${PROGRAMS:-}" ] || build_step "rondo-bench built" 200 rondo-bench
for part in $parts; do
	case $part in
	figures | tests | sass | more | training | sanitizers | mps) "$part" ;;
	*)
		line "$part" "is no part (figures, tests, sass, sanitizers, more, mps or training)"
		failed=1
		;;
	esac
done
name=
