#!/usr/bin/env bash
# full_disk.sh BUILD: each tool whose standard output cannot be written, as on a full disk, ends with an error, and
# one line says so.
set -euo pipefail
cd "$1"

[ -c /dev/full ] || {
	echo "full_disk: skipped: no /dev/full here"
	exit 77
}
bad=0
while read -r command; do
	[ -x "${command%% *}" ] || continue
	status=0
	# Ranks may log.
	# shellcheck disable=SC2086
	lines=$(RONDO_DEBUG=NONE timeout 60 $command 2>&1 >/dev/full) || status=$?
	name=${command%% *}
	if [ "$status" != 1 ] || [ "$(grep -cE "^${name##*/}: cannot write (standard output|to stdout)" <<<"$lines")" != 1 ]; then
		echo "full_disk: '$command' ends with $status: $lines"
		bad=1
	fi
done <<'EOF'
./rondo-bench --help
./rondo-bench --version
./rondo-bench all_reduce --ranks 2 -b 8 -e 8
./rondo-check --help
./rondo-check --list
./rondo-check --algorithm ./plugins/algorithm_right.so
./rondo-plan print ring all_reduce
./rondo-plan draw ring all_reduce --svg -
./rondo-plan compare all_reduce
./rondo-run --help
./rondo-run --version
./rondo-run --status --rdzv-id none
./rondo-run --check
./rondo-run --nproc-per-node 2 echo ranks
./rondo-topo
./rondo-topo --help
./train/rondo-train --help
./train/rondo-train --version
./train/rondo-train --data drawn --steps 1
EOF
exit $bad
