#!/usr/bin/env bash
# wheel.sh SOURCE BUILD PYTHON: the same input gives the same wheel, byte for byte. Installed into a virtual
# environment without a network, it runs the program at the head of docs/python.md by that page's command.
set -euo pipefail

source=$1 python=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset RONDO_LIBRARY PYTHONPATH RANK WORLD_SIZE

fail() {
	echo "wheel: $*" >&2
	exit 1
}

wheel=$(find "$2/python" -name 'rondo-*.whl')
again=$work/$(basename "$wheel")
"$python" "$source/adapters/python/make_wheel.py" "$2/python/librondo.so" "$2/python/rondo-run" "$again"
cmp "$wheel" "$again" || fail "two wheels of one build differ"

for module in pip venv; do
	if ! "$python" -m $module --help >/dev/null 2>&1; then
		echo "skipped: $python has no $module"
		exit 77
	fi
done
# A pip of its own would take longer than all else.
"$python" -m venv --without-pip "$work/venv"
"$python" -m pip --python "$work/venv/bin/python3" install --no-index "$wheel" >"$work/log" 2>&1 ||
	fail "pip: $(cat "$work/log")"
cd "$work"

# The page's first block is the program; the next two are its command and output.
block() {
	awk -v want="$1" '/^```/ { on = !on; if (on) n++; next } on && n == want' "$source/docs/python.md"
}
block 1 >three.py
[ "$(wc -l <three.py)" = 3 ] || fail "the program of docs/python.md has not three lines"
[ "$(block 2)" = "python3 -m rondo.run -n 2 three.py" ] || fail "docs/python.md has another command: $(block 2)"
venv/bin/python3 -m rondo.run -n 2 three.py >out 2>&1 || fail "the program failed: $(cat out)"
diff <(block 3) out || fail "the program prints something else than docs/python.md shows"
echo "ok: $(cat out)"
