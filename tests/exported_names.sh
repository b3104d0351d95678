#!/usr/bin/env bash
# exported_names.sh SHARED STATIC: the shared library exports what the public header declares, all of it
# and nothing else. The static one must export more, by names that no program has: rondo_NAME and rd_NAME.
set -euo pipefail

header=$(dirname "$0")/../lib/include/rondo.h
exported=$(nm --dynamic --defined-only --format=posix "$1" | cut -d' ' -f1 | sed 's/@.*//' | sort -u)
declared=$(tr '\n' ' ' <"$header" | grep -oE 'RONDO_API [^;]*;' |
	grep -oE '\brondo_[a-z0-9_]+ ?\(' | tr -d ' (' | sort -u)

if [ "$exported" != "$declared" ]; then
	echo "exported (left) and declared (right) names differ:"
	comm -3 <(echo "$exported") <(echo "$declared")
	exit 1
fi
strange=$(nm --extern-only --defined-only --format=posix "$2" | awk 'NF > 1 && $1 !~ /^(rd|rondo)_/ { print $1 }')
# Sanitizers' own.
strange=$(sed '/^__\(odr_asan\|asan\|start_\|stop_\)/d' <<<"$strange")
if [ -n "$strange" ]; then
	echo "$2 exports $strange"
	exit 1
fi
echo "$(wc -w <<<"$exported") names, all declared in rondo.h"
