#!/usr/bin/env bash
# usage: tests/format.sh SOURCE: the sources are as clang-format leaves them. Each version of it formats a little
# differently: this one counts, Debian 12's.
set -euo pipefail
version=14
cd "$1"

if ! found=$(clang-format --version 2>/dev/null | sed -n 's/.*version \([0-9]*\)\..*/\1/p') || [ "$found" != $version ]; then
	echo "skipped: clang-format $version is not here (found: ${found:-none})"
	exit 77
fi
find lib ring mesh tree transports train tools tests docs \
	\( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
	xargs -0 clang-format --dry-run -Werror
echo "formatted"
