#!/usr/bin/env bash
# gpu_table.sh SOURCE_DIR BUILD_DIR: tests/gpu.sh ends with its table whatever happens: where all is well (on the tests'
# driver, if this build has it), where steps fail, hang, or skip what they were to test, and where it is killed itself.
# No process of a step outlives it.
set -uo pipefail
source=$1 build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
	printf 'gpu_table.sh: %s\n' "$*"
	tail -40 "$scratch/out"
	exit 1
}

# WORDS: the table has this line; the output ends with the table.
expect_line() {
	sed '1,/^[0-9a-z ]*, 20[-0-9]*, [0-9]* s$/d' "$scratch/out" | grep -qE "$1" || fail "no line in the table: $1"
}

# PID-FILE: that process is over.
expect_gone() {
	local pid
	pid=$(cat "$1") || fail "the step did not begin"
	for _ in $(seq 100); do
		# A zombie that nobody waits for is over, too.
		grep -qs '^State:.[^ZX]' "/proc/$pid/status" || return
		sleep 0.1
	done
	fail "process $pid has outlived its step"
}

# ENVIRONMENT... -- ARGUMENTS...: gpu.sh with these; its status.
gpu() {
	local variables=()
	while [ "$1" != -- ]; do variables+=("$1"); shift; done
	shift
	env BUILD="$scratch/gpu" "${variables[@]}" "$source/tests/gpu.sh" "$@" >"$scratch/out" 2>&1
}

# NAME: a program of the build that gpu.sh is given, from standard input.
program() {
	mkdir -p "$scratch/programs"
	{ printf '#!/usr/bin/env bash\n'; cat; } >"$scratch/programs/$1"
	chmod +x "$scratch/programs/$1"
}

# ---- All is well ----

if [ -e "$build/driver/libcuda.so.1" ]; then
	gpu PROGRAMS="$build" LD_LIBRARY_PATH="$build/driver" -- --small figures || fail "status $?"
	expect_line '^a copy within the device, 64 KB +[0-9.]+ us +[0-9.]+ TB/s$'
	expect_line '^all_reduce 8 B, 2 threads +[0-9.]+ us$'
	expect_line '^all_reduce 8 B in a captured graph, 2 threads +[0-9.]+ us$'
	expect_line '^all_reduce 64 KB, 4 processes +[0-9.]+ us +[0-9.]+ TB/s +[0-9.]+ % of a copy$'
	cmp -s "$scratch/out" "$scratch/gpu.log" || fail "the log is not what was printed"
	# With MPS, and without: then its lines would be of something else.
	program nvidia-cuda-mps-control </dev/null
	for mps in 1 ''; do
		gpu PROGRAMS="$build" LD_LIBRARY_PATH="$build/driver" PATH="$scratch/programs:$PATH" ${mps:+EMULATED_MPS=1} -- \
			--small mps || fail "status $?"
		if [ -n "$mps" ]; then
			expect_line '^all_reduce 64 KB, 4 processes, MPS +[0-9.]+ us'
			expect_line '^graphs, and small calls, among processes under MPS +ok, [0-9]+ passed$'
		else
			expect_line '^MPS +not run: '
			grep -q '^all_reduce.* MPS ' "$scratch/out" && fail "measured without MPS"
		fi
	done
fi

# ---- Steps that fail, hang, and skip ----

program rondo-bench <<'END'
case $* in
barrier*) # what is left behind, in a session of its own, as test programs leave it
	setsid sleep 1000 &
	echo $! >"$SCRATCH/left"
	trap '' TERM
	while :; do sleep 1; done ;;
*--ranks*) echo "rondo-bench: rank 0: rank 1 died" && exit 3 ;;
*"-G 20"*) printf '        8     2  float   sum  -1   4.75   0.00  0.00  0\n' ;;
*) printf '        8     2  float   sum  -1   1.25   0.00  0.00  0\n' ;;
esac
END
program compute-sanitizer <<'END'
case "$RONDO_KERNEL $*" in
"stepped --tool memcheck --target-processes all "*" all_reduce "*"--ranks 2"*) echo "==== ERROR SUMMARY: 0 errors" ;;
*) echo "==== ERROR SUMMARY: 1 error" && exit 3 ;;
esac
END
program test_gpu_small <<'END'
printf '[RUN ] a::one\n[PASS] a::one: (0.1s)\n[RUN ] a::two\n[SKIP] a::two: there is no GPU here\n[SKIP] a::three: Test is disabled\n'
END
program test_gpu <<'END'
case $* in
*!*) printf '[RUN ] gpu::one\n[FAIL] gpu::one: (0.1s)\n[RUN ] gpu::two\n' && exit 1 ;;
*) printf '[RUN ] gpu::one\n[PASS] gpu::one: (0.1s)\n' ;;
esac
END
stubs=(PROGRAMS="$scratch/programs" SCRATCH="$scratch" LIMIT_S=2)
gpu "${stubs[@]}" PATH="$scratch/programs:$PATH" -- figures tests sanitizers
[ $? -eq 1 ] || fail "a failure is not its status"
expect_line '^barrier, 2 threads +TIMED OUT'
expect_line '^all_reduce 8 B, 2 threads +1.25 us'
expect_line '^all_reduce 8 B, 4 processes +FAILED \(status 3\): rondo-bench: rank 0: rank 1 died'
expect_line '^all_reduce 8 B in a captured graph, 2 threads +4.75 us$'
expect_line '^compute-sanitizer memcheck, all_reduce, stepped +ok$'
expect_line '^compute-sanitizer racecheck, all_reduce, stepped +FAILED \(status 3\)'
expect_line '^small calls.* 1 passed, 1 SKIPPED: there is no GPU here$'
expect_line '^calls captured in graphs +ok, 1 passed$'
expect_line '^calls on GPUs.* FAILED \(status 1\), 0 passed, failed: one, not ended: two$'
expect_line '^no device.* NOT RUN: .*test_device_missing was not built'
expect_gone "$scratch/left"

# ---- Machine code that is wrong ----

program cuobjdump <<'END'
case $1 in -sass) printf '\tcode for sm_90\n\t\tFunction : rondo_transfers\n' ;; esac
END
program nvdisasm </dev/null
gpu PROGRAMS="$scratch/programs" PATH="$scratch/programs:$PATH" -- sass && fail "machine code without a fence will do"
expect_line "^the kernels' machine code +FAILED \(status 1\), sm_90 rondo_transfers: no fence"

# ---- Nothing can be built ----

program cmake <<'END'
echo "CMake Error: there is nothing here"
exit 1
END
env BUILD="$scratch/gpu" PATH="$scratch/programs:$PATH" "$source/tests/gpu.sh" figures tests >"$scratch/out" 2>&1
[ $? -eq 1 ] || fail "a build that fails is not its status"
expect_line '^rondo-bench built +FAILED \(status 1\): CMake Error: there is nothing here$'
expect_line '^all_reduce 8 B, 2 threads +NOT RUN: rondo-bench was not built'
expect_line '^calls captured in graphs +NOT RUN'

# ---- One test program does not build ----

program cmake <<'END'
case $* in
*--build*"-- -k"*) cp "$SCRATCH/programs/test_gpu_small" "$BUILD" && exit 1 ;;
*--build*) exit 1 ;;
esac
END
env BUILD="$scratch/gpu" SCRATCH="$scratch" PATH="$scratch/programs:$PATH" "$source/tests/gpu.sh" tests >"$scratch/out" 2>&1
[ $? -eq 1 ] || fail "a build that fails is not its status"
expect_line '^tests built +FAILED \(status 1\)$'
expect_line '^small calls.* 1 passed, 1 SKIPPED'
expect_line '^calls on GPUs.* NOT RUN: .*test_gpu was not built'

# ---- It is killed ----

rm -f "$scratch/left"
env BUILD="$scratch/gpu" "${stubs[@]}" LIMIT_S=100 "$source/tests/gpu.sh" figures >"$scratch/out" 2>&1 &
script=$!
for _ in $(seq 300); do
	[ -s "$scratch/left" ] && break
	sleep 0.1
done
kill -TERM $script
wait $script
[ $? -eq 143 ] || fail "a kill is not its status"
expect_line '^a copy within the device.* us'
expect_line '^barrier, 2 threads +CUT OFF by SIGTERM$'
expect_gone "$scratch/left"
cmp -s "$scratch/out" "$scratch/gpu.log" || fail "the log of what was killed is not what was printed"

# ---- The parent of a test program is killed ----

if [ -e "$build/driver/libcuda.so.1" ]; then
	touch "$scratch/out"
	LD_LIBRARY_PATH="$build/driver" GPU_CALLS=10000000 GPU_TABLE=$$ \
		"$build/test_gpu" -j1 --filter 'gpu/eight*' >"$scratch/out" 2>&1 &
	runner=$!
	for _ in $(seq 300); do
		begun=$(grep -lzxF "GPU_TABLE=$$" /proc/[0-9]*/environ 2>/dev/null | tr -dc '0-9\n')
		# The program, the watcher of its tests, and the ranks.
		[ "$(wc -l <<<"$begun")" -ge 3 ] && break
		sleep 0.1
	done
	[ "$(wc -l <<<"$begun")" -ge 3 ] || fail "the test does not begin"
	disown $runner # without a word about its end
	kill -KILL $runner
	for pid in $begun; do
		echo "$pid" >"$scratch/pid"
		expect_gone "$scratch/pid"
	done
fi
echo "tests/gpu.sh ends with its table"
