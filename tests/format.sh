#!/usr/bin/env bash
# usage: tests/format.sh [SOURCE]: no line of the sources has more than 100 columns, and they are as clang-format
# leaves them. Each version of it formats a little differently: this one counts, Debian 12's.
set -euo pipefail
version=14
cd "${1:-$(dirname "$0")/..}"

sources() {
	find lib ring mesh tree transports train tools tests bench adapters docs \
		\( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -print0
}

# clang-format leaves comments as they are. String literals stay whole, and so do tables that it leaves out.
too_long=$(sources | xargs -0 awk -v columns=100 '
	FNR == 1 { table = 0 }
	/clang-format off/ { table = 1 }
	/clang-format on/ { table = 0 }
	{
		width = 0
		for (i = 1; i <= length($0); i++)
			width += substr($0, i, 1) == "\t" ? 8 - width % 8 : 1
	}
	width > columns && !table && !/^\t*"/ { print FILENAME ":" FNR ": " width " columns" }')
if [ -n "$too_long" ]; then
	echo "more than 100 columns:"
	echo "$too_long"
	exit 1
fi

if ! found=$(clang-format --version 2>/dev/null | sed -n 's/.*version \([0-9]*\)\..*/\1/p') || [ "$found" != $version ]; then
	echo "skipped: clang-format $version is not here (found: ${found:-none})"
	exit 77
fi
sources | xargs -0 clang-format --dry-run -Werror
echo "formatted"
