#!/usr/bin/env bash
# command.sh SOURCE BUILD: ./rondo installs the packages and builds the targets that each command needs, and no
# more; and installs the files of BUILD. A copy of the script runs with fakes of apt-get, cmake, ninja, ctest and
# programs, which record their calls.
set -euo pipefail

# The script has a variable build of its own.
source=$1 tree=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "command: $*" >&2
	exit 1
}

mkdir "$work/bin" "$work/home" "$work/clone"
cp "$source/rondo" "$work/clone"
real_cmake=$(command -v cmake)
export work tree real_cmake
export PATH=$work/bin:$PATH HOME=$work/home

# shellcheck disable=SC2016
# fake_program NAME: a program that records its arguments, then runs the script on stdin.
fake_program() {
	{
		printf '#!/bin/sh\necho "%s $*" >>"$work/calls"\n' "$1"
		cat -
	} >"$work/bin/$1"
	chmod +x "$work/bin/$1"
}
for name in ninja ctest rondo-run rondo-bench bench-train simulate soak; do
	fake_program $name </dev/null
done
fake_program id <<'DO'
echo 0
DO
fake_program apt-get <<'DO'
case "$*" in *" install "*) touch "$work/packages" ;; esac
DO
fake_program pkg-config <<'DO'
[ -e "$work/packages" ] # libraries are there once they have been installed
DO
fake_program cmake <<'DO'
if [ "$1" = --install ]; then
	shift 2
	exec "$real_cmake" --install "$tree" "$@"
fi
# cmake -S . -B BUILD ...
cd "$work/clone"
cp "$tree/CMakeCache.txt" "$work/bin/rondo-run" "$work/bin/rondo-bench" "$work/bin/simulate" "$work/bin/soak" "$4"
DO

# runs COMMAND...: of the script, in a directory that is not the script's, from a machine without packages.
runs() {
	rm -f "$work/calls" "$work/packages"
	(cd "$work" && "$work/clone/rondo" "$@") >"$work/out" 2>&1 || fail "rondo $*: $(cat "$work/out" "$work/calls")"
}
has() { grep -q -e "$1" "$work/calls" || fail "no '$1' in: $(cat "$work/calls")"; }
has_no() { ! grep -q -e "$1" "$work/calls" || fail "'$1' in: $(cat "$work/calls")"; }
refuses() { # WHAT COMMAND...
	local what=$1
	shift
	rm -f "$work/calls"
	! (cd "$work" && "$work/clone/rondo" "$@") >"$work/out" 2>&1 || fail "rondo $*: is no failure"
	grep -q -e "$what" "$work/out" || fail "rondo $*: no '$what' in: $(cat "$work/out")"
	[ ! -e "$work/calls" ] || fail "rondo $*: began with $(cat "$work/calls")"
}

runs demo --epochs 1
has '^apt-get .* install .*libopenblas-dev zlib1g-dev$'
has_no criterion
has_no WERROR
has '^cmake -S . -B build-cpu .* -DRONDO_CUDA=OFF$'
has '^ninja -C build-cpu rondo-run rondo-train$'
has '^rondo-run --standalone .* build-cpu/train/rondo-train --epochs 5 --epochs 1$'
# With CUDA's kernels where they are asked for, or have been built.
runs demo --device cuda
has_no RONDO_CUDA
has '^ninja -C build rondo-run rondo-train$'
mkdir "$work/clone/build/train"
cp "$work/bin/rondo-run" "$work/clone/build/train/rondo-train"
runs demo
has_no RONDO_CUDA
has '^ninja -C build rondo-run rondo-train$'
has '^rondo-run --standalone .* build/train/rondo-train --epochs 5$'

runs bench all_gather
has_no 'openblas\|criterion'
has '^ninja -C build rondo rondo-bench rondo-run$'
has '^rondo-bench --ranks 2 all_gather$'

mkdir -p "$work/clone/bench/peers"
ln -s "$work/bin/bench-train" "$work/clone/bench/peers/train"
runs bench train --quick
has '^apt-get .* install .*libopenblas-dev zlib1g-dev$'
has_no 'criterion\|torch'
has '^bench-train --quick$'
has '^cmake -S . -B build-cpu .* -DRONDO_CUDA=OFF$'
has '^ninja -C build-cpu rondo-train$'

runs soak --seeds 5
has '^ninja -C build soak simulate$'
has '^simulate --jobs [0-9]* --seeds 5$'
runs soak --seed 7 --trace
has '^simulate --seed 7 --trace$'
runs soak --minutes 1
has '^soak --minutes 1$'

runs test -R ring
has '^apt-get .* libopenblas-dev zlib1g-dev libcriterion-dev'
has '^cmake .* -DRONDO_WERROR=ON$'
has '^ninja -C build$'
has '^ctest .*-R ring$'
has '^cmake .* -DRONDO_INSTRUCTIONS= '
runs test --compiler clang --instructions avx2
has '^cmake -S . -B build-clang .* -DRONDO_INSTRUCTIONS=avx2 '
refuses 'wants avx2 or none' test --instructions sse
echo "ok: each command installs and builds what it needs"

# The build for the demo has no test, and no tool but these.
ninja=$(PATH=${PATH#*:} command -v ninja)
if [ -e "$tree/build.ninja" ] && [ -x "$tree/train/rondo-train" ]; then
	"$ninja" -C "$tree" -t commands rondo-run rondo-train >"$work/commands"
	grep -q 'train/main\.c' "$work/commands" || fail "the demo does not build the trainer"
	! grep -nE '[ /](tests|docs)/[a-z_/]*\.c|/rondo-(bench|check|topo)\.c' "$work/commands" ||
		fail "the demo builds these too"
	# And on the CPU nothing of CUDA.
	PATH=${PATH#*:} "$real_cmake" -S "$source" -B "$work/cpu" -G Ninja -DRONDO_CUDA=OFF >"$work/out" || fail "$(cat "$work/out")"
	"$ninja" -C "$work/cpu" -t commands rondo-run rondo-train >"$work/commands"
	grep -q 'train/main\.c' "$work/commands" || fail "the demo does not build the trainer"
	! grep -nE 'nvcc|fatbin|cuda\.c' "$work/commands" || fail "the demo on the CPU builds these too"
	echo "ok: the demo builds $(wc -l <"$work/commands") of $("$ninja" -C "$tree" -t commands all | wc -l)"
fi

# Installs to the given directory, seen from the caller, or to ~/.local.
runs install --prefix here
has '^ninja -C build rondo_installed$'
has_no criterion
[ -x "$work/here/bin/rondo-run" ] || fail "install --prefix here: $(cat "$work/out")"
grep -q "PKG_CONFIG_PATH=$work/here/lib" "$work/out" || fail "install does not say where: $(cat "$work/out")"
if compgen -G "$tree/python/*.whl" >/dev/null; then
	grep -qx "  python3 -m pip install $work/here/share/rondo/rondo-.*\.whl" "$work/out" ||
		fail "install does not name the wheel: $(cat "$work/out")"
fi
runs install '--prefix=~/rondo'
[ -e "$work/home/rondo/share/doc/rondo/LICENSE" ] || fail "install '--prefix=~/rondo': $(cat "$work/out")"
runs install
[ -e "$work/home/.local/include/rondo.h" ] || fail "install: $(cat "$work/out")"
runs install --without-cuda --prefix here
has '^cmake -S . -B build-cpu .* -DRONDO_CUDA=OFF$'
runs install --build-dir there --prefix=here
has "^cmake -S . -B $work/there "
has "^ninja -C $work/there rondo_installed$"
printf '#!/bin/sh\necho "$@" >>%s/pythons\necho %s/packages\n' "$work" "$work" >"$work/python"
chmod +x "$work/python"
runs install --prefix here --with-torch "$work/python"
grep -q "^adapters/torch/build.py --include $work/here/include --library $work/here/lib.* --prefix $work/here$" \
	"$work/pythons" || fail "install --with-torch: $(cat "$work/out")"
refuses 'there is no such Python' install --with-torch /no/python
refuses 'needs a directory' install --prefix
refuses 'needs a directory' install --build-dir
# There it was configured for the source of BUILD, which is another one.
! "$work/clone/rondo" install --build-dir "$work/there" >"$work/out" 2>&1 || fail "install to another project's build"
grep -q 'another project' "$work/out" || fail "$(cat "$work/out")"
refuses 'is no option here' install --perfix x
refuses 'is no directory' install --prefix clone/rondo/x
echo "ok: install"
"$source/rondo" help | grep -q '^  install ' || fail "./rondo help does not know install"
