#!/usr/bin/env bash
# ptx.sh SOURCE_DIR NVCC: the PTX of the library's kernels has the fences, flags and loads that their sources rely on.
# tests/sass.sh reads the machine code of it, where a toolkit has cuobjdump; this needs nvcc alone.
#
#   fences	fence.acq_rel.sys: no weaker one, and no fence.sc or membar, which take longer.
#   flags	loaded and stored .volatile, which is .relaxed.sys: 32 bits, or the 16 bytes of LL at once.
#   loads	none by the read-only cache, which misses what peers write.
set -euo pipefail
source=$1 nvcc=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cat >"$scratch/ptx.awk" <<'END_OF_AWK'
function wrong(text) {
	printf "%s: %s\n", kernel, text
	failed = 1
}

function end_kernel() {
	if (kernel == "")
		return
	if (!fences)
		wrong("no fence")
	if (!loads || !stores)
		wrong("no load or no store of a flag")
	kernels++
}

/\.entry / {
	end_kernel()
	kernel = $0
	sub(/.*\.entry +/, "", kernel)
	sub(/\(.*/, "", kernel)
	fences = loads = stores = 0
}

{
	sub(/^[ \t]*(@!?%p[0-9]+[ \t]+)?/, "")
	sub(/[ \t;].*/, "")
}

$0 == "fence.acq_rel.sys" { fences++; next }
/^(fence|membar)\./ { wrong($0 ": not fence.acq_rel.sys") }
/^ld.*\.nc\./ { wrong($0 ": by the read-only cache") }
/^(ld|st)\.volatile\.global\.(v4\.)?u32$/ { loads += /^ld/; stores += /^st/; next }
/^(ld|st)\..*volatile/ { wrong($0 ": neither a flag nor 16 bytes at once") }

END {
	end_kernel()
	print kernels + 0 " kernels"
	exit failed || !kernels
}
END_OF_AWK

status=0
for name in kernels plans transfers; do
	"$nvcc" -ptx -std=c++17 -O3 -fmad=false -arch=compute_80 -I"$source" -I"$source/lib" -I"$source/lib/include" \
		"$source/lib/device/cuda/$name.cu" -o "$scratch/$name.ptx"
	awk -f "$scratch/ptx.awk" "$scratch/$name.ptx" || status=1
done
exit $status
