#!/usr/bin/env bash
# sass.sh KERNELS_DIR: the machine code of the library's kernels there (kernels, plans and transfers.fatbin) is what
# their sources rely on, for every architecture that they were compiled for. By CUDA's cuobjdump, which needs nvdisasm;
# skipped (77) where one is missing.
#
#   fences	MEMBAR.ALL.SYS (.SC.SYS takes longer), then CCTL.IVALL: what a peer wrote before is read anew, past the
#		first level.
#   flags	loaded and stored .STRONG.SYS; 16 bytes of LL at once, never by halves; nothing by the read-only cache.
#   products	rounded before they are added to something: no fused operations but those of divisions, counted below.
#   room	as many registers as let two blocks share a multiprocessor, and next to no spills.
set -euo pipefail
for tool in cuobjdump nvdisasm; do
	if ! command -v $tool >/dev/null; then
		echo "sass.sh: skipped: there is no $tool here"
		exit 77
	fi
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# This reads `cuobjdump -sass`, kernel by kernel. A division of f32 (also what f16, bf16 and 8-bit floats divide in) is 5 FFMA
# and an FCHK, and 12 in a path that all of a kernel's share, three of them with a rounding of their own; one of f64 is
# 7 DFMA, an FFMA and a MUFU.RCP64H, and 10 DFMA and another such in the shared path. HFMA2 of zeros loads a constant.
cat >"$scratch/code.awk" <<'END_OF_AWK'
function wrong(text) {
	printf "%s %s: %s\n", arch, kernel, text
	failed = 1
}

function end_fence() {
	if (fence != "")
		wrong(fence " without CCTL.IVALL")
	fence = ""
}

function at_least_one(what, count) {
	if (count == 0)
		wrong("no " what)
}

function at_most(what, count, most) {
	if (count > most)
		wrong(count " " what ", " most " of them for divisions: products are not rounded")
}

function end_kernel(f32, f64) {
	if (kernel == "")
		return
	end_fence()
	at_least_one("fence (MEMBAR)", fences)
	at_least_one("store of a flag (STG.E.STRONG.SYS)", flag_stores)
	at_least_one("load of a flag (LDG.E.STRONG.SYS)", flag_loads)
	# Plans of messages have flags alone.
	if (kernel !~ /^rondo_steps_/) {
		at_least_one("load of 16 bytes of LL (LDG.E.128.STRONG.SYS)", ll_loads)
		at_least_one("store of 16 bytes of LL (STG.E.128.STRONG.SYS)", ll_stores)
	}
	f32 = checks
	f64 = reciprocals ? reciprocals - 1 : 0
	at_most("FFMA", ffma, 5 * f32 + (f32 ? 12 : 0) + f64)
	at_most("DFMA", dfma, 7 * f64 + (f64 ? 10 : 0))
	at_most("HFMA2", hfma, 0)
	kernels++
}

/^[ \t]*code for sm_/ { end_kernel(); kernel = ""; arch = $NF }

/^[ \t]*Function :/ {
	end_kernel()
	kernel = $NF
	fences = flag_loads = flag_stores = ll_loads = ll_stores = ffma = dfma = hfma = checks = reciprocals = 0
}

/^[ \t]*\/\*[0-9a-f]+\*\/[ \t]/ {
	code = $0
	sub(/^[ \t]*\/\*[0-9a-f]+\*\/[ \t]+/, "", code)
	sub(/;.*/, "", code)
	sub(/^@!?U?P[0-9T]+[ \t]+/, "", code)
	operation = code
	sub(/[ \t].*/, "", operation)

	if (operation == "CCTL.IVALL")
		fence = ""
	else if (operation ~ /^(MEMBAR|LDG|STG|LD\.|ST\.|ATOM|RED|BAR|BRA|BRX|BSYNC|CALL|RET|EXIT)/)
		end_fence()
	if (operation ~ /^MEMBAR/) {
		fences++
		fence = operation
		if (operation == "MEMBAR.SC.SYS")
			wrong(operation ": sequentially consistent, where a release or an acquire suffices")
		else if (operation != "MEMBAR.ALL.SYS")
			wrong(operation ": not a fence for all devices and the host")
	}

	if (operation ~ /^LD.*\.CONSTANT/)
		wrong(operation ": by the read-only cache, which misses what peers write")
	if (operation ~ /^(LD|ST)G?\..*STRONG/) {
		if (operation ~ /\.(64|U8|U16|S8|S16)\./)
			wrong(operation ": neither a flag nor 16 bytes at once")
		else if (operation !~ /\.128\./ && operation !~ /\.SYS$/)
			wrong(operation ": a flag not for all devices and the host")
	}
	flag_loads += operation ~ /^LDG?\.E\.STRONG\.SYS$/
	flag_stores += operation ~ /^STG?\.E\.STRONG\.SYS$/
	ll_loads += operation ~ /^LDG?\.E\.128\.STRONG\.SYS$/
	ll_stores += operation ~ /^STG?\.E\.128\.STRONG\.SYS$/

	ffma += operation ~ /^FFMA/
	dfma += operation ~ /^DFMA/
	hfma += operation ~ /^HFMA/ && code !~ /-RZ, RZ,/
	checks += operation ~ /^FCHK/
	reciprocals += operation ~ /^MUFU\.RCP64H/
}

END {
	end_kernel()
	if (!kernels) {
		print "no machine code of any kernel"
		exit 1
	}
	print kernels " kernels"
	exit failed
}
END_OF_AWK

# From `cuobjdump -res-usage`. The registers of a multiprocessor are 65,536, a block has 512 threads. GPUs before sm_89
# convert 8-bit floats by hand.
cat >"$scratch/room.awk" <<'END_OF_AWK'
/^arch = / { arch = $NF }
/Function / { kernel = $NF; sub(/:$/, "", kernel) }
/REG:/ {
	most_stack = kernel ~ /_f8/ && substr(arch, 4) + 0 < 89 ? 96 : 32
	for (i = 1; i <= NF; i++) {
		split($i, part, ":")
		if (part[1] == "REG" && part[2] > 64)
			problem = "registers, 64 leave room for two blocks"
		else if ((part[1] == "STACK" || part[1] == "LOCAL") && part[2] > most_stack)
			problem = "bytes of " part[1] ", " most_stack " are what it may spill"
		else
			continue
		printf "%s %s: %d %s\n", arch, kernel, part[2], problem
		failed = 1
	}
	kernels++
}
END { exit failed || !kernels }
END_OF_AWK

status=0
for name in kernels plans transfers; do
	fatbin=$1/$name.fatbin
	for check in code:-sass room:-res-usage; do
		cuobjdump "${check#*:}" "$fatbin" >"$scratch/listing"
		if ! awk -f "$scratch/${check%:*}.awk" "$scratch/listing" >"$scratch/out"; then
			status=1
			echo "sass.sh: $fatbin is wrong:"
		fi
		cat "$scratch/out"
	done
done
exit $status
