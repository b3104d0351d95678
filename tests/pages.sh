#!/usr/bin/env bash
# pages.sh SOURCE BUILD: docs/TOOL.md has a table row for each option that TOOL --help lists, and no other option.
# TOOL -h prints the same as --help. docs/infiniband.md lists the completion errors as the code does. docs/errors.md
# has a section and a row for each code of rondo.h, in its order. The files that docs/rondo-train.md lists are there,
# with the functions that their lines name.
set -euo pipefail

source=$1 build=$2 bad=0
complain() {
	echo "$*" >&2
	bad=1
}

for tool in "$build"/rondo-{bench,check,run,topo} "$build/train/rondo-train"; do
	name=${tool##*/}
	[ -x "$tool" ] || [ "$name" != rondo-train ] || continue # it takes OpenBLAS
	help=$("$tool" --help)
	page=$(grep -E '^\| `-' "$source/docs/$name.md" | cut -d'|' -f2)
	for option in $(grep -E '^ +(-[a-zA-Z], )?--' <<<"$help" | grep -oE -- '--[a-z][a-z0-9_-]+'); do
		grep -qE -- "\`$option\b" <<<"$page" || complain "docs/$name.md lacks $option"
	done
	for option in $(grep -oE -- '`--[a-z][a-z0-9_-]+' <<<"$page"); do
		grep -qE -- "${option#?}\b" <<<"$help" || complain "docs/$name.md lists $option, and $name --help does not"
	done
	[ "$("$tool" -h)" = "$help" ] || complain "$name -h is not $name --help"
done

# The completion errors of verbs, with their meanings.
errors=$(tr -d '\n' <"$source/transports/verbs/status.c" | grep -oE 'STATUS\(IBV_WC_[A-Z_]+,\s*"[^"]*"' |
	sed -E 's/.*IBV_WC_([A-Z_]+),\s*"(.*)"/\1: \2/')
rows=$(sed -nE 's/^\| `([A-Z_]+)` \| [0-9]+ \| ([^|]*) \|.*/\1: \2/p' "$source/docs/infiniband.md")
[ -n "$errors" ] || complain "transports/verbs/status.c has no errors"
different=$(diff <(echo "$errors") <(echo "$rows")) ||
	complain "docs/infiniband.md (>) and transports/verbs/status.c (<) differ: $different"

codes=$(sed -nE 's/^\tX\((RONDO_[A-Z]+), -[0-9]+, .*/\1/p' "$source/lib/include/rondo.h")
[ -n "$codes" ] || complain "rondo.h has no codes"
different=$(diff <(echo "$codes") <(sed -nE 's/^## (RONDO_[A-Z]+)$/\1/p' "$source/docs/errors.md")) ||
	complain "sections of docs/errors.md (>) and codes of rondo.h (<) differ: $different"
different=$(diff <(echo "$codes") <(sed -nE 's/^\| `(RONDO_[A-Z]+)` \|.*/\1/p' "$source/docs/errors.md")) ||
	complain "rows of docs/errors.md (>) and codes of rondo.h (<) differ: $different"

files=$(grep -E '^ +train/' "$source/docs/rondo-train.md")
while read -r file text; do
	if [ ! -e "$source/$file" ]; then
		complain "docs/rondo-train.md lists $file, which does not exist"
		continue
	fi
	for function in $(grep -oE '[a-z_]+\(' <<<"$text"); do
		grep -rqw "${function%(}" "$source/$file" || complain "docs/rondo-train.md: $file has no $function)"
	done
done <<<"$files"
exit $bad
