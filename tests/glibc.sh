#!/usr/bin/env bash
# glibc.sh FILE...: the library and programs that were built here use nothing that glibc 2.28 lacks.
set -euo pipefail

# Functions of 2.28 that later versions moved to another library, or gave another name or result.
old='^(__libc_start_main|_?_?(pthread|sem|shm)_[a-z_]+|dl(open|close|sym|error|addr)|[fl]?stat|fstatat|mknod'
old+='|(exp|log|pow|exp2|log2|fmod|hypot)f?|__isoc23_[a-z]+|mq_[a-z]+|timer_[a-z]+|aio_[a-z]+)$'
bad=0
for file; do
	used=$(objdump -T "$file" | grep 'UND.*GLIBC_')
	new=$(sed -nE "s/.*GLIBC_2\.([0-9]+)[.0-9]*\)? +(.*)/\1 \2/p" <<<"$used" | awk -v old="$old" '
		$1 > 28 && ($2 !~ old || $2 ~ /_clock(join|wait|lock|rdlock|wrlock)/) {
			print "	" $2 " (glibc 2." $1 ")"
		}')
	[ -z "$new" ] || { echo "$file uses:"; echo "$new"; bad=1; }
done
exit $bad
