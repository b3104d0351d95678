#!/usr/bin/env bash
# sub_project.sh SOURCE KERNELS COMPILER: inside another project Rondo is only its libraries. It also builds on a
# machine without Criterion, or with a new warning.
set -euo pipefail

source=$1 kernels=$2 compiler=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "sub_project: $*" >&2
	exit 1
}

configure() { # NAME SOURCE OPTION...
	cmake -S "$2" -B "$work/$1" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DRONDO_KERNELS_DIR="$kernels" \
		"${@:3}" >"$work/log" 2>&1 || fail "$1: $(cat "$work/log")"
}

# Another project, which has tests of its own, and calls a target as we might.
mkdir "$work/project"
cp "$source/docs/examples/all_reduce.c" "$work/project"
cat >"$work/project/CMakeLists.txt" <<'DO'
cmake_minimum_required(VERSION 3.22)
project(someones LANGUAGES C)
option(BUILD_TESTING "" ON)
enable_testing()
add_subdirectory(${RONDO} rondo)
add_library(train INTERFACE)
add_executable(static all_reduce.c)
target_link_libraries(static PRIVATE rondo::rondo)
add_executable(shared all_reduce.c)
target_link_libraries(shared PRIVATE rondo::shared)
add_test(NAME theirs COMMAND static)
install(TARGETS static)
if(CMAKE_BUILD_TYPE OR CMAKE_C_STANDARD OR CMAKE_C_VISIBILITY_PRESET)
	message(FATAL_ERROR "settings have leaked: '${CMAKE_BUILD_TYPE}'")
endif()
DO
configure theirs "$work/project" -DRONDO="$source" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DBUILD_SHARED_LIBS=ON
cmake --build "$work/theirs" >"$work/log" 2>&1 || fail "$(tail -n 40 "$work/log")"
for way in static shared; do
	[ "$(WORLD_SIZE=1 RANK=0 "$work/theirs/$way")" = "rank 0 of 1: the sum is 1" ] || fail "$way"
done
readelf -d "$work/theirs/shared" | grep -q 'NEEDED.*librondo.so.0.1' || fail "rondo::shared is not the shared one"
! readelf -d "$work/theirs/static" | grep -q 'NEEDED.*librondo' || fail "rondo::rondo is not the static one"
! grep -q -e -Werror "$work/theirs/compile_commands.json" || fail "-Werror in another project"
! grep 'project/all_reduce.c' "$work/theirs/compile_commands.json" | grep -qe '-W\|-O\|_GNU_SOURCE' ||
	fail "options have leaked: $(grep project/all_reduce.c "$work/theirs/compile_commands.json")"
tests=$(ctest --test-dir "$work/theirs" -N | sed -n 's/^Total Tests: //p')
[ "$tests" = 1 ] || fail "$tests tests in another project"
! find "$work/theirs" -name 'rondo-*' -type f | grep . || fail "tools in another project"
cmake --install "$work/theirs" --prefix "$work/installed" >/dev/null
[ "$(cd "$work/installed" && find . -type f)" = ./bin/static ] || fail "installed: $(find "$work/installed")"
echo "ok: add_subdirectory, rondo::rondo and rondo::shared"

# On purpose it has all of it.
configure all "$work/project" -DRONDO="$source" -DRONDO_INSTALL=ON -DCMAKE_INSTALL_DATAROOTDIR=data
grep -q 'data/doc/rondo' "$work/all/rondo/cmake_install.cmake" || fail "RONDO_INSTALL=ON installs no docs"

# Install folders that are absolute, within the prefix and beyond it.
configure absolute "$source" -DRONDO_CUDA=OFF -DRONDO_TOOLS=OFF -DCMAKE_INSTALL_PREFIX=/opt/rondo \
	-DCMAKE_INSTALL_LIBDIR=/opt/rondo/lib -DCMAKE_INSTALL_INCLUDEDIR=/else/include
[ "$(PKG_CONFIG_PATH=$work/absolute pkg-config --cflags --libs rondo)" = \
	"-I/else/include -L/opt/rondo/lib -lrondo " ] || fail "absolute folders: $(cat "$work/absolute/rondo.pc")"

# Optional parts, of which ON is an error where they are missing, and OFF leaves them out.
configure off "$source" -DRONDO_CUDA=OFF -DRONDO_TOOLS=OFF -DRONDO_HWLOC=OFF -DRONDO_OPENSSL=OFF -DRONDO_VERBS=OFF
! grep -q 'RD_HAS_\|transports/verbs/\|secure/tls' "$work/off/build.ninja" || fail "OFF leaves something in"
for part in HWLOC OPENSSL VERBS; do
	! cmake -S "$source" -B "$work/on_$part" -G Ninja -DRONDO_CUDA=OFF -DRONDO_TOOLS=OFF -DCMAKE_C_COMPILER="$compiler" \
		-DCMAKE_SYSTEM_NAME=Linux -DRONDO_$part=ON >"$work/log" 2>&1 || fail "a cross build takes $part from this machine"
	grep -q "RONDO_$part=ON, but no .* was found" "$work/log" || fail "$(cat "$work/log")"
done
echo "ok: install folders, optional parts"

# Without Criterion (pkg-config finds no package) there are libraries and tools, a line with the reason, and no
# test; and warnings stop a build only on request.
export PKG_CONFIG_LIBDIR=$work/none
configure bare "$source"
grep -q 'Tests: left out, need Criterion' "$work/log" || fail "not a word of Criterion: $(cat "$work/log")"
ninja -C "$work/bare" -n rondo rondo_shared rondo-run rondo-bench rondo-check >/dev/null ||
	fail "nothing to build without Criterion"
! ninja -C "$work/bare" -t targets all | grep -q '^test_' || fail "tests without Criterion"
! grep -q -e -Werror "$work/bare/build.ninja" || fail "-Werror unasked"
configure strict "$source" -DRONDO_WERROR=ON -DRONDO_TOOLS=OFF
grep -q -e -Werror "$work/strict/build.ninja" || fail "RONDO_WERROR=ON does nothing"
! ninja -C "$work/strict" -t targets all | grep -q '^rondo-run' || fail "RONDO_TOOLS=OFF builds tools"
echo "ok: without Criterion"
