#!/usr/bin/env bash
# usage: tests/size.sh [SOURCE]: prints the lines of each area, as wc -l counts them, and the most that it may have.
# Fails where an area has more. A commit that needs more raises the number here, and its body gives the reason.
# "product" is the C and CUDA of the library, its algorithms and transports, the trainer and the tools; "files" is
# the number of files in git.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

limits='
core 39825
control 19205
gpu 11045
transports 14370
trainer 19140
tools 29197
tests 109566
bench 6250
adapters 5592
docs 10690
product 132590
files 1776'

# The files that git has, or will have with the next commit. An archive has no git: there, all that it does not ignore.
files() {
	if [ -e .git ]; then
		git ls-files -z --cached --others --exclude-standard
	else
		find . '(' -path './build*' -o -path ./data -o -path ./compile_commands.json -o -name __pycache__ \
			-o -name '*.checkpoint' ')' -prune -o -type f -printf '%P\0'
	fi
}

# wc prints its sum, too. The lines of packed inputs mean nothing.
files | while IFS= read -rd '' file; do
	[ ! -f "$file" ] || printf '%s\0' "$file"
done | xargs -0 wc -l | awk -v limits="$limits" '
	NF == 2 && $2 == "total" { next }
	{ path = $2; count["files"]++; area = "" }
	path ~ /\.xz$/ { next }
	path ~ /^(lib|mesh|ring|tree)\// { area = "core" }
	path ~ /^(lib\/(bootstrap|secure|net)|tools\/run\/nodes)\// { area = "control" }
	path ~ /^lib\/(gpu|device)\// { area = "gpu" }
	path ~ /^transports\// { area = "transports" }
	path ~ /^train\// { area = "trainer" }
	path ~ /^tools\// && !area { area = "tools" }
	path ~ /^tests\// { area = "tests" }
	path ~ /^bench\// { area = "bench" }
	path ~ /^adapters\// { area = "adapters" }
	path ~ /^docs\/|^[A-Z]+\.md$/ { area = "docs" }
	area { count[area] += $1 }
	path ~ /^(lib|mesh|ring|tree|transports|train|tools)\/.*\.(c|h|cu|cuh)$/ { count["product"] += $1 }
	END {
		areas = split(limits, field)
		for (i = 1; i < areas; i += 2) {
			over = count[field[i]] > field[i + 1]
			printf "%-10s %7d of %7d%s\n", field[i], count[field[i]], field[i + 1], over ? ": too many" : ""
			bad = bad || over
		}
		exit bad
	}'
