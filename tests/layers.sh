#!/usr/bin/env bash
# usage: tests/layers.sh [SOURCE [OBJECT]...]
# The order of the folders: a file includes files of its own folder and of lower ones, and names the folder.
# Tools and the trainer include seven headers of the library alone: clock.h, descriptor.h, host_name.h, instructions.h, json.h, nearest.h and
# port.h of base/. rondo-run adds environment.h and pidfd.h of base/, cpus.h, processors.h and sysfs.h of topo/, secret.h of secure/, address.h, socket.h, wire.h, codec.h, connection.h and door.h of net/, status.h of bootstrap/, rondo-bench graph.h of api/, and for replay program.h of tools/plan; rondo-topo, rondo-plan, rondo-check, tools/files.c and tools/xml.c include any of it.
# One file asks the processor for its instructions, so that a test build holds all kernels to less.
# The library makes descriptors above 0, 1 and 2. Tests lie where CMake finds them.
# No header includes itself, directly or through others.
# With the library's object files: no two files of it call each other, directly or through others.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
[ $# -eq 0 ] || shift

# Lowest first. The public headers, lib/include, lie below all of them.
order=(lib/base lib/secure lib/net lib/topo lib/plan ring mesh tree lib/exec lib/check lib/tuner lib/bootstrap lib/device
	transports transports/shm transports/tcp transports/verbs transports/contract lib/comm lib/gpu lib/api
	train/base train/world train/device train/data train/model train/optim train/parallel train/checkpoint train/metrics train
	tools/run/base tools/run/output tools)

bad=0
if ! find lib ring mesh tree transports train tools -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' |
	LC_ALL=C sort | xargs grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]+"' /dev/null |
	awk -v order="${order[*]}" '
	# The folder with the longest name counts: train/base before train.
	function height(path,   i, best) {
		for (i = count; i > 0; i--)
			if (index(path, name[i] "/") == 1 && length(name[i]) > length(name[best]))
				best = i
		return best + 0
	}
	BEGIN { count = split(order, name, " ") }
	/^lib\/include\// { next }
	{
		split($0, part, ":")
		match($0, /"[^"]+"/)
		included = substr($0, RSTART + 1, RLENGTH - 2)
		from = height(part[1])
		if (!from) {
			print part[1] ": lies in a folder that tests/layers.sh does not list"
			bad = 1
		}
		if (index(included, "rondo") == 1)
			next # a public header
		to = height("lib/" included)
		if (!to)
			to = height(included)
		# Tools name files of their own folder, and those that all tools share, by themselves.
		if (!to && part[1] ~ /^tools\//) {
			if (height("tools/" included) > from) {
				print part[1] ":" part[2] ": includes " included ", which lies higher"
				bad = 1
			}
			next
		}
		if (part[1] ~ /^(tools|train)\// && part[1] !~ /^tools\/(rondo-)?(topo|check|plan|files|xml)[.\/]/ &&
			included !~ /^(base\/(clock|descriptor|host_name|instructions|json|nearest|port)\.h$|train\/)/ &&
			!(part[1] ~ /^tools\/run\// && included ~ /^(base\/(environment|pidfd)|topo\/(cpus|processors|sysfs)|secure\/secret|net\/(address|socket|wire|codec|connection|door)|bootstrap\/status)\.h$/) &&
			!(part[1] ~ /^tools\/bench\// && included == "api/graph.h") &&
			!(part[1] ~ /^tools\/bench\/replay\./ && included == "plan/program.h")) {
			print part[1] ":" part[2] ": includes " included ", and may include rondo.h and base/clock.h, descriptor.h, host_name.h, instructions.h, json.h, nearest.h and port.h"
			bad = 1
			next
		}
		if (!to) {
			print part[1] ":" part[2] ": \"" included "\" does not name its folder"
			bad = 1
		} else if (to > from) {
			print part[1] ":" part[2] ": includes " included ", which lies higher"
			bad = 1
		}
	}
	END { exit bad }'; then
	bad=1
fi

if grep -rnE '__builtin_cpu_|cpuid' lib transports train tools --include='*.[ch]' | grep -v '^lib/base/instructions\.c:'; then
	echo "only lib/base/instructions.c asks the processor: see instructions.h"
	bad=1
fi

# Calls that make a descriptor lie within rd_above_stderr() (base/descriptor.h).
if find lib transports -name '*.c' ! -path '*/contract/*' | LC_ALL=C sort | xargs awk '
	FNR == 1 { before = "" }
	/^\t.*[^a-z_.>](open|socket|accept4?|eventfd|epoll_create1|memfd_create|pidfd_open|timerfd_create|pipe2?|dup)\(/ &&
			(before $0) !~ /rd_above_stderr\(/ && FILENAME !~ /base\/descriptor\.c$/ && !/^\t*(\/\*| \*)/ {
		print FILENAME ":" FNR ": makes a descriptor that rd_above_stderr() does not see"
	}
	{ before = $0 }' | grep .; then
	bad=1
fi

# CMake looks for tests in these folders alone.
if find tests -name 'test_*.c' | grep -vE '^tests/(unit|system)/[a-z]+/[^/]*$|^tests/unit/train/'; then
	echo "tests lie in folders of tests/unit and tests/system"
	bad=1
fi

# tsort(1) names the files of each circle.
circles() { # circles PAIRS VERB
	local found
	found=$(tsort <<<"$1" 2>&1 >/dev/null) && return
	sed "s/^tsort: //; s/^-: input contains a loop:/these $2 each other in a circle:/" <<<"$found"
	bad=1
}

# Names are from lib, from the top, or from the file's own folder.
circles "$(find lib ring mesh tree transports train tools -name '*.h' -o -name '*.cuh' | LC_ALL=C sort |
	xargs awk '
	BEGIN { for (i = 1; i < ARGC; i++) header[ARGV[i]] }
	/^[ \t]*#[ \t]*include[ \t]+"/ {
		match($0, /"[^"]+"/)
		name = substr($0, RSTART + 1, RLENGTH - 2)
		folder = FILENAME
		sub(/[^\/]*$/, "", folder)
		if ((to = "lib/" name) in header || (to = "lib/include/" name) in header ||
			(to = name) in header || (to = folder name) in header || (to = "tools/" name) in header)
			print FILENAME, to
	}')" include

if [ $# -gt 0 ]; then
	pairs=$(printf '%s\n' "$@" | xargs nm -A -P | awk '
		{
			file = $1
			sub(/.*rondo_objects\.dir\//, "", file)
			sub(/\.o:$/, "", file)
		}
		$3 ~ /^[TDBRCVW]$/ { where[$2] = file }
		$3 == "U" { user[++uses] = file; used[uses] = $2 }
		END {
			for (i = 1; i <= uses; i++)
				if (used[i] in where && where[used[i]] != user[i])
					print user[i], where[used[i]]
		}' | LC_ALL=C sort -u)
	[ -n "$pairs" ] || { echo "these are no object files of the library: $*"; exit 1; }
	circles "$pairs" call
fi
exit $bad
