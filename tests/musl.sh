#!/usr/bin/env bash
# musl.sh SOURCE: the library, the tools and the examples compile with musl, without a warning, and run with it.
# 77: musl-gcc is missing (Debian: musl-tools).
set -euo pipefail

source=$1
command -v musl-gcc >/dev/null || { echo "skipped: no musl-gcc (Debian: musl-tools)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Debian's musl comes without the kernel's headers. Beside them glibc's would be found, too.
for folder in linux asm-generic "$(gcc -print-multiarch)/asm"; do
	ln -s "/usr/include/$folder" "$work/${folder##*/}"
done
# Unoptimised: it compiles in a third of the time.
cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_C_COMPILER=musl-gcc -DCMAKE_C_FLAGS="-idirafter $work" \
	-DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 -DRONDO_WERROR=ON -DRONDO_CUDA=OFF >"$work/log" 2>&1 ||
	{ cat "$work/log"; exit 1; }
! grep -o 'RD_HAS_[A-Z]*\|rondo-train$\|-lcriterion' "$work/build/build.ninja" || { echo "are glibc's"; exit 1; }
ninja -C "$work/build" >"$work/log" 2>&1 || { grep -A20 'FAILED' "$work/log"; exit 1; }
readelf -l "$work/build/rondo-run" | grep -o 'interpreter: .*musl[^]]*'
[ "$("$work/build/rondo-run" --nproc-per-node 2 "$work/build/examples/all_reduce" | sort)" = \
	$'rank 0 of 2: the sum is 3\nrank 1 of 2: the sum is 3' ]
