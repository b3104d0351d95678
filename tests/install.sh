#!/usr/bin/env bash
# install.sh SOURCE BUILD COMPILER [SANITIZERS]: installs to a directory of its own, moves that, and
# builds the README's program against the moved copy in each way that the README promises.
set -euo pipefail

source=$1 build=$2 compiler=$3 sanitize=${4:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "install: $*" >&2
	exit 1
}

# run_and_check WHAT PROGRAM: two ranks of it print the expected lines.
run_and_check() {
	local out
	out=$("$prefix/bin/rondo-run" --nproc-per-node 2 "$2" | sort) || fail "$1: failed"
	[ "$out" = $'rank 0 of 2: the sum is 3\nrank 1 of 2: the sum is 3' ] || fail "$1 printed: $out"
	echo "ok: $1"
}

# Nothing but the first C block, as it stands.
awk '/^```c$/ { on = 1; next } on && /^```$/ { exit } on' "$source/README.md" >"$work/all_reduce.c"
cmp "$work/all_reduce.c" "$source/docs/examples/all_reduce.c" ||
	fail "the README's program is not docs/examples/all_reduce.c"

cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"
prefix=$work/moved
libdir=$(dirname "$(find "$prefix" -name librondo.a)")
export PKG_CONFIG_PATH=$libdir/pkgconfig
flags=(-Wall -Wextra -Werror)
[ -z "$sanitize" ] || flags+=("-fsanitize=$sanitize")

soname=$(readelf -d "$libdir/librondo.so" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')
[ "$soname" = librondo.so.0.1 ] || fail "the shared library's name is '$soname'"

# The licence, and the pages with whatever they link to.
docs=$prefix/share/doc/rondo
cmp "$source/LICENSE" "$docs/LICENSE" || fail "the licence is not installed"
grep -q 'Apache License.*(LICENSE)' "$source/README.md" || fail "the README does not name the licence"
for page in "$source"/docs/*.md; do
	[ -e "$docs/$(basename "$page")" ] || fail "$(basename "$page") is not installed"
done
while IFS=: read -r page target; do
	[ -e "$docs/$(dirname "$page")/$target" ] || fail "$page links to $target, which is not installed"
done < <(cd "$docs" && grep -oE '\]\([^)#]+' ./*.md ./examples/*.md | sed 's/](//' | grep -v ':http')
read -ra installed <<<"$(pkg-config --cflags --libs rondo)"
"$compiler" "${flags[@]}" "$docs/examples/all_reduce.c" "${installed[@]}" -o "$work/example"
LD_LIBRARY_PATH=$libdir run_and_check "an installed example" "$work/example"
for example in "$docs"/examples/*.c; do
	case ${example##*/} in plugin_* | mpi.c) continue ;; esac
	"$compiler" -std=c11 -pedantic "${flags[@]}" "$example" "${installed[@]}" -lm -o "$work/example"
done
echo "ok: the installed examples, in strict C11"

# As in the README; the shared library is not in the loader's path.
read -ra shared <<<"$(pkg-config --cflags --libs rondo)"
"$compiler" "${flags[@]}" "$work/all_reduce.c" "${shared[@]}" -o "$work/shared"
readelf -d "$work/shared" | grep -q 'NEEDED.*librondo.so.0.1' || fail "the program does not need librondo.so.0.1"
LD_LIBRARY_PATH=$libdir run_and_check "pkg-config, shared" "$work/shared"

read -ra static <<<"$(pkg-config --static --cflags --libs rondo)"
"$compiler" "${flags[@]}" "$work/all_reduce.c" "${static[@]/#-lrondo/-l:librondo.a}" -o "$work/static"
! readelf -d "$work/static" | grep -q 'NEEDED.*librondo' || fail "the program is not linked statically"
run_and_check "pkg-config --static" "$work/static"

# The README's own commands, of which ./rondo install puts in place what has been built.
mkdir -p "$work/readme/home"
cp "$work/all_reduce.c" "$work/readme"
cat >"$work/readme/rondo" <<END
#!/bin/sh
[ "\$*" = "install --prefix \$HOME/rondo" ] && cmake --install "$build" --prefix "\$3" >/dev/null
END
chmod +x "$work/readme/rondo"
sed -n '/^Install, build and run it/,/^To link\|^(in which/{/^    /p}' "$source/README.md" | sed 's/^    //' >"$work/block"
grep -v '^rank ' "$work/block" >"$work/readme/commands"
(
	cd "$work/readme"
	export HOME=$work/readme/home
	# shellcheck disable=SC2317
	cc() { "$compiler" "${flags[@]}" "$@"; }
	set -e
	# shellcheck disable=SC1091
	. ./commands
) >"$work/log" 2>"$work/errors" || fail "the README's commands: $(cat "$work/errors" "$work/log")"
diff <(sort "$work/log") <(grep '^rank ' "$work/block") >&2 || fail "the README's commands print something else"
echo "ok: the README's commands"

mkdir "$work/project"
cp "$work/all_reduce.c" "$work/project"
cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(someones LANGUAGES C)
find_package(Rondo 0.1 REQUIRED)
add_executable(static all_reduce.c)
target_link_libraries(static PRIVATE rondo::rondo)
add_executable(shared all_reduce.c)
target_link_libraries(shared PRIVATE rondo::shared)
END
cmake -S "$work/project" -B "$work/project/build" -G Ninja -DCMAKE_C_COMPILER="$compiler" \
	-DCMAKE_C_FLAGS="${flags[*]}" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" || fail "$(cat "$work/log")"
cmake --build "$work/project/build" >"$work/log" || fail "$(cat "$work/log")"
run_and_check "find_package, rondo::rondo" "$work/project/build/static"
run_and_check "find_package, rondo::shared" "$work/project/build/shared"

# finds COMPONENTS...: configures a project that asks for them.
finds() {
	sed -i "s/find_package(.*/find_package(Rondo 0.1 REQUIRED COMPONENTS $*)/" "$work/project/CMakeLists.txt"
	cmake -S "$work/project" -B "$work/project/build" >"$work/log" 2>&1
}
finds shared || fail "COMPONENTS shared: $(cat "$work/log")"
finds static OPTIONAL_COMPONENTS fast || fail "COMPONENTS static: $(cat "$work/log")"
! finds shard || fail "COMPONENTS shard was found"
tr -s ' \n' ' ' <"$work/log" | grep -q "Rondo has no component 'shard': its components are static and shared" ||
	fail "COMPONENTS shard: $(cat "$work/log")"
echo "ok: find_package, COMPONENTS"

# plug_in EXAMPLE LIBRARY KIND: as on its page; the installed rondo-check passes it.
plug_in() {
	local cflags
	read -ra cflags <<<"$(pkg-config --cflags rondo)"
	"$compiler" -Wall -Wextra -Werror -shared -fPIC "$source/docs/examples/$1" "${cflags[@]}" \
		-o "$work/$2"
	"$prefix/bin/rondo-check" "--$3" "$work/$2" "${@:4}" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
	echo "ok: $2: $(tail -n 1 "$work/log")"
}

# Two cases of the suite: tests/check.sh runs it all.
plug_in plugin_transport.c libnearby.so transport messages_arrive_in_order_through_many_wraps \
	processes_send_both_ways_at_once
plug_in plugin_algorithm.c libstar.so algorithm
# They find Rondo's functions, whether the program is linked statically or not.
export RONDO_TRANSPORT_PLUGIN=$work/libnearby.so RONDO_TRANSPORT=nearby
export RONDO_ALGO_PLUGIN=$work/libstar.so RONDO_ALGO=star
run_and_check "plug-ins, static" "$work/static"
LD_LIBRARY_PATH=$libdir run_and_check "plug-ins, shared" "$work/shared"
unset RONDO_TRANSPORT_PLUGIN RONDO_TRANSPORT RONDO_ALGO_PLUGIN RONDO_ALGO

# No installed file holds a path of this build tree, or of the first directory.
if grep -rlF -e "$build" -e "$work/first" "$libdir"/pkgconfig "$libdir"/cmake; then
	fail "these know where they were built"
fi
