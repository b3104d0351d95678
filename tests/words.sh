#!/usr/bin/env bash
# usage: tests/words.sh [SOURCE]: the rules of words in CONTRIBUTING.md, as far as a script can tell. Prints
# - each sentence of the pages that begins with What, Who, Whoever or Of, and each of more than 30 words. Code blocks
#   and tables do not count. A paragraph, a heading or a list item ends a sentence, and so do . ! ? ; and :
# - each definition of a definition list: GitHub shows its colon.
# - each sentence of a source's comments that begins with one of these words.
# - each identifier of the library with a word that has a better one. Comments and strings do not count.
# Fails if it prints a line.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

sentences='
function sentence(text,   count) {
	sub(/^[[:space:]*_(]+/, "", text)
	count = split(text, words)
	if (count > 30)
		report(count " words: " text)
	if (match(text, /^(What|Who|Whoever|Of)[[:space:]]/))
		report("begins with " substr(text, 1, RLENGTH - 1) ": " text)
}
function report(text) {
	print place ": " text
	bad = 1
}
function finish(   at) {
	while (match(paragraph, /[.!?;:][)"*`]*[[:space:]]+[^[:space:]]/)) {
		at = RSTART + RLENGTH - 1
		sentence(substr(paragraph, 1, at - 1))
		paragraph = substr(paragraph, at)
	}
	sentence(paragraph)
	paragraph = ""
}
FNR == 1 { finish(); fenced = code = 0; blank = 1 }
/^[[:space:]]*```/ { finish(); fenced = !fenced; next }
fenced { next }
/^[[:space:]]*$/ { finish(); blank = 1; next }
# Indented code begins behind an empty line.
/^(    |\t)/ && (blank || code) { code = 1; next }
{ code = blank = 0 }
/^\|/ { finish(); next }
/^:[[:space:]]/ {
	place = FILENAME ":" FNR
	report("GitHub shows the colon of a definition list: " $0)
}
/^(#+|[[:space:]]*[-*]|[[:space:]]*[0-9]+\.)[[:space:]]/ {
	finish()
	sub(/^(#+|[[:space:]]*[-*]|[[:space:]]*[0-9]+\.)[[:space:]]+/, "")
}
{
	if (!paragraph)
		place = FILENAME ":" FNR
	paragraph = paragraph " " $0
}
END { finish(); exit bad }'

# Reads a line at a time: code is skipped, and a comment is one text. An empty line ends a sentence.
comments='
function comment(text) {
	sub(/^[[:space:]]*[*\/]*[[:space:]]*(-+ )?/, "", text)
	before = (ended ? " . " : " ") text
	ended = text == "" || text ~ /[.!?;:][)"]*$/
	while (match(before, /[.!?;:][)"]*[[:space:]]+(What|Who|Whoever|Of)[[:space:]]/)) {
		print FILENAME ":" FNR ": begins with " substr(before, RSTART + 1)
		before = substr(before, RSTART + RLENGTH)
		bad = 1
	}
}
FNR == 1 { inside = 0; hash = FILENAME !~ /\.(c|h|cc|cu|cuh)$/; ended = 1 }
!inside && hash && match($0, /^[[:space:]]*#/) { comment(substr($0, RLENGTH + 1)); next }
!inside && hash { ended = 1; next }
{
	line = $0
	if (!inside && line !~ /\/[*\/]/) {
		ended = 1
		next
	}
	for (;;) {
		if (inside) {
			at = index(line, "*/")
			comment(at ? substr(line, 1, at - 1) : line)
			if (!at)
				next
			inside = 0
			line = substr(line, at + 2)
		}
		gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
		if (match(line, /\/\//) && !(index(line, "/*") && index(line, "/*") < RSTART)) {
			comment(substr(line, RSTART + 2))
			next
		}
		if (!(at = index(line, "/*")))
			next
		ended = inside = 1
		line = substr(line, at + 2)
	}
}
END { exit bad }'

identifiers='
BEGIN { RS = "\001" } # the whole file
{
	for (line = 1; length($0); $0 = substr($0, length(token) + 1)) {
		name = 0
		if (!match($0, /^(\/\*[^*]*\*+([^\/*][^*]*\*+)*\/|\/\/[^\n]*|"([^"\\\n]|\\.)*"|\047([^\047\\\n]|\\.)*\047)/) &&
			!(name = match($0, /^[A-Za-z_][A-Za-z_0-9]*/)))
			match($0, /^([^A-Za-z_\/"\047]+|.)/)
		token = substr($0, 1, RLENGTH)
		if (name && match(tolower("_" token "_"), "_(" refused ")_")) {
			print FILENAME ":" line ": " token
			bad = 1
		}
		text = token
		line += gsub(/\n/, "", text)
	}
}
END { exit bad }'
# NCCL, MPI or the kernel has a better word for each.
refused='boards?|agents?|lanes?|begun|tariffs?|gauges?|lending|scores?|held|spokes?|terms|introduc[a-z]*'

bad=0
awk "$sentences" docs/*.md docs/examples/*.md README.md CONTRIBUTING.md CHANGES.md || bad=1
find lib -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | LC_ALL=C sort |
	xargs awk -v refused="$refused" "$identifiers" || bad=1
find lib ring mesh tree transports tools train tests bench adapters -type f '(' -name '*.[ch]' -o -name '*.cu' -o \
	-name '*.cuh' -o -name '*.cc' -o -name '*.sh' -o -name '*.awk' -o -name '*.py' -o -name CMakeLists.txt -o \
	-name run ')' |
	LC_ALL=C sort | xargs awk "$comments" rondo .ci/run || bad=1
exit $bad
