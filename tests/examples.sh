#!/usr/bin/env bash
# examples.sh SOURCE BUILD NAME: the commands that docs/examples/README.md shows under the heading NAME print the lines
# that it shows below them, in any order. Without a launcher, the program fails and prints the reason.
set -euo pipefail

source=$1 build=$2 name=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "examples: $name: $*" >&2
	exit 1
}

# Measured times differ from run to run; so do the processes that die, and the host.
plain() {
	case $name in
	bandwidth | overlap) sed -E 's/[0-9]+\.[0-9]+/0.0/g' ;;
	checkpoint)
		sed -E '/exited with status|^rondo-run: (first failure|  )/d; s/pid [0-9]+/pid 0/; s/host [^,]+/host h/' | LC_ALL=C sort -u
		;;
	shrink) sed -E 's/pid [0-9]+/pid 0/' ;;
	*) cat ;;
	esac | LC_ALL=C sort
}

# shellcheck disable=SC2016
awk -v heading="## $name" '/^#/ { inside = $0 == heading } inside && /^    / { print substr($0, 5) }' \
	"$source/docs/examples/README.md" >"$work/shown"
mapfile -t commands < <(sed -n 's/^\$ //p' "$work/shown")
[ ${#commands[@]} -gt 0 ] || fail "docs/examples/README.md shows no command"

if [ $name = mpi ] && [ ! -e "$build/examples/mpi" ]; then
	echo "skipped: MPI was not found (libopenmpi-dev or libmpich-dev, when CMake ran)"
	exit 77
fi
mkdir "$work/here" "$work/bin"
if [ $name = mpi ]; then
	# The mpirun of the MPI that CMake has found. Open MPI starts no more ranks than cores, and none as root, unless
	# it is told.
	printf '#!/bin/sh\nexec "%s" "$@"\n' "$MPIEXEC" >"$work/bin/mpirun"
	chmod +x "$work/bin/mpirun"
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
	export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
fi
cd "$work/here"
ln -s "$build/examples/$name" .
export PATH=$work/bin:$build:$PATH OMP_NUM_THREADS=1
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT RONDO_PORT RONDO_RENDEZVOUS_FD
for command in "${commands[@]}"; do
	awk -v command="$command" '/^\$ / { inside = $0 == "$ " command; next } inside' "$work/shown" | plain >"$work/expected"
	status=0 wanted=0
	[[ $command == *--keep-going* ]] || ! grep -q 'was killed by signal 9' "$work/expected" || wanted=137
	bash -c "$command" >"$work/out" 2>&1 || status=$?
	[ $status = $wanted ] || fail "$command: status $status: $(cat "$work/out")"
	# On a busy machine, a call may wait for seconds.
	sed '/ RONDO WARN slow call: /d' "$work/out" | plain | diff "$work/expected" - >&2 ||
		fail "$command: does not print what the page shows"
	echo "ok: $command"
done

# prints STATUS LINE COMMAND...: fails with this status, and a line is like LINE.
prints() {
	local wanted=$1 line=$2 status=0
	shift 2
	"$@" >"$work/out" 2>&1 || status=$?
	[ $status = "$wanted" ] || fail "$*: status $status: $(cat "$work/out")"
	grep -qE -e "$line" "$work/out" || fail "$*: no '$line' in: $(cat "$work/out")"
	echo "ok: $*: $(grep -m 1 -E -e "$line" "$work/out")"
}

case $name in
ddp_mlp)
	# The README's second program is a part of it.
	block=$(awk '/^```c$/ { inside = ++blocks == 2; next } /^```$/ { inside = 0 } inside' "$source/README.md")
	[ -n "$block" ] && [[ $(<"$source/docs/examples/ddp_mlp.c") == *"$block"* ]] || fail "the README shows another program"
	for ranks in 1 3; do
		prints 0 'the same parameters, the same bits' rondo-run --nproc-per-node $ranks ./ddp_mlp
	done
	;;
bandwidth)
	# The page's formulas, on the printed figures: they have three digits behind the point.
	for ranks in 2 3 4; do
		rondo-run --nproc-per-node $ranks ./bandwidth 3000001 >"$work/out" 2>&1 || fail "$(cat "$work/out")"
		grep -qE "^all-reduce of 3000001 floats on $ranks ranks: " "$work/out" || fail "$(cat "$work/out")"
		sed -E 's/[^0-9.]+/ /g' "$work/out" | awk '
			function near(a, b) { return a > b * 0.98 - 0.002 && a < b * 1.02 + 0.002 }
			{ exit !($2 == ranks && near($4, $1 * 4 / ($3 * 1e6)) && near($5, $4 * 2 * ($2 - 1) / $2)) }
		' ranks=$ranks - || fail "wrong figures: $(cat "$work/out")"
		echo "ok: $(cat "$work/out")"
	done
	for count in 0 -1 1x 99999999999999999999 ''; do
		prints 2 '^usage: ' rondo-run ./bandwidth "$count"
	done
	;;
tensor_parallel | pipeline_parallel | model_parallel)
	prints 1 '^3 ranks cannot share ' rondo-run --nproc-per-node 3 "./$name"
	;;
checkpoint)
	[ "$(ls)" = $'checkpoint\nmodel.bin\nother.bin' ] || fail "it leaves files behind: $(ls)"
	cp model.bin kept.bin
	# A checkpoint that cannot be written, since its draft's name is too long: the one before stays.
	long=$(printf '%0250d' 0)
	mv model.bin "$long"
	prints 1 ': File name too long' rondo-run --nproc-per-node 2 ./checkpoint "$long" 110
	cmp "$long" kept.bin || fail "$long changed"
	mv "$long" model.bin
	# Nobody can foresee the name, and put a link there.
	ln -s elsewhere.bin model.bin.new
	rondo-run --nproc-per-node 2 ./checkpoint model.bin 110 | grep '^2 ranks begin at step 100 of 110$' || fail "no step 100"
	[ ! -e elsewhere.bin ] || fail "it writes to elsewhere.bin"
	rm model.bin.new
	[ "$(ls)" = $'checkpoint\nkept.bin\nmodel.bin\nother.bin' ] || fail "it leaves files behind: $(ls)"
	# Damaged ones: too short, too long, with another byte, empty.
	head -c 40 kept.bin >first.bin
	tail -c +42 kept.bin >last.bin
	for damaged in first.bin 'kept.bin kept.bin' 'first.bin byte last.bin' /dev/null; do
		printf '!' >byte
		# shellcheck disable=SC2086
		cat $damaged >damaged.bin
		prints 1 '^damaged.bin: no checkpoint' rondo-run --nproc-per-node 2 ./checkpoint damaged.bin 100
	done
	;;
shrink)
	# At the first step, the last one, and the barrier after it.
	for death in 1 999 1000; do
		rondo-run --nproc-per-node 4 --keep-going ./shrink 1000 $death >"$work/out" 2>/dev/null || fail "$death"
		tail -n 1 "$work/out" | diff <(tail -n 1 "$work/expected" | sed 's/^4/3/') - || fail "a death at $death"
	done
	prints 2 '^usage: ' ./shrink none
	;;
esac
case $name in
threads) ;; # is the whole job then
checkpoint) prints 1 '^RONDO_SETTING: RANK is not set' ./checkpoint model.bin 1 ;;
mpi) prints 1 '^mpi: each rank is an MPI job' rondo-run --nproc-per-node 2 ./mpi ;;
all_reduce) prints 1 'RANK is not set' "./$name" ;;
*) prints 1 '^RONDO_SETTING: RANK is not set' "./$name" ;;
esac
