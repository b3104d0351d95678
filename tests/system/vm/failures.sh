#!/usr/bin/env bash
# failures.sh BUILD: tests/system/vm/run fails where a test fails, has no end, or panics its kernel. Killed, it leaves no
# process behind.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
build=$(readlink -f "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# NAME: a test, from standard input, that runs in the background.
begin() {
	cat >"$work/$1.sh"
	"$here/run" "$build" "$work/$1.sh" >"$work/$1.out" 2>&1 &
}

# NAME PID STATUS TEXT: that test ends so.
expect() {
	local status=0
	wait "$2" || status=$?
	[ $status != 77 ] || { cat "$work/$1.out" && exit 77; }
	if [ $status != "$3" ] || ! grep -q -e "$4" "$work/$1.out"; then
		echo "$1: status $status, or no '$4' in:"
		cat "$work/$1.out"
		exit 1
	fi
}

# DIRECTORY: the processes that work there.
processes_in() {
	find /proc -maxdepth 2 -path '/proc/[0-9]*/cwd' -lname "$1" 2>/dev/null
}

begin vm_fails <<'END'
fail "on purpose"
END
fails=$!
begin vm_panics <<'END'
echo c >/proc/sysrq-trigger
END
panics=$!
expect vm_fails $fails 1 '^guest0: failed: on purpose'
expect vm_panics $panics 1 '^guest0: no exit status'

begin vm_stalls <<'END'
# limit: 3
sleep 100
END
stalls=$!
begin vm_is_killed <<'END'
echo "is in the guest"
sleep 100
END
killed=$!
# run ends all of this in time.
until grep -q 'is in the guest' "$work/vm_is_killed.out" || ! kill -0 $killed 2>/dev/null; do
	sleep 0.1
done
if [ -z "$(processes_in "$build/vm/vm_is_killed")" ]; then
	echo "vm_is_killed: no process works in $build/vm/vm_is_killed, and its output is:"
	cat "$work/vm_is_killed.out"
	exit 1
fi
kill -KILL $killed
expect vm_stalls $stalls 1 '^guest0: The test has not ended within 3 s'
for _ in $(seq 600); do
	[ -n "$(processes_in "$build/vm/vm_is_killed")" ] || exit 0
	sleep 0.1
done
echo "killed, run leaves processes behind: $(processes_in "$build/vm/vm_is_killed")"
exit 1
