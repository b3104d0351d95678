#!/usr/bin/env bash
# sass_listings.sh SOURCE_DIR: tests/sass.sh passes over good machine code, and finds each fault by itself, in listings
# that a cuobjdump of this test's prints; without one it is skipped.
set -uo pipefail
script=$1/tests/sass.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"
# shellcheck disable=SC2016
printf '#!/usr/bin/env bash\ncase $1 in -sass) cat "%s/code" ;; *) cat "%s/room" ;; esac\n' "$scratch" "$scratch" \
	>"$scratch/bin/cuobjdump"
printf '#!/usr/bin/env bash\n' >"$scratch/bin/nvdisasm"
chmod +x "$scratch"/bin/*

fail() {
	printf 'sass_listings.sh: %s\n' "$*"
	cat "$scratch/out"
	exit 1
}

check() {
	PATH="$scratch/bin:$PATH" "$script" "$scratch" >"$scratch/out" 2>&1
}

# OPERATION...: instructions as cuobjdump lists them, each before its code.
list() {
	local operation at=0
	for operation; do
		printf '        /*%04x*/  %16s %s ;   /* 0x0000000000007992 */\n' $at "" "$operation"
		printf '%60s /* 0x000fec0000002000 */\n' ""
		at=$((at + 16))
	done
}

good() {
	local division=(FCHK 'FFMA R1, R2, R3, R4' 'FFMA R1, R2, R3, R4' 'FFMA R1, R2, R3, R4' '@!P0 FFMA R1, R2, R3, R4'
		'FFMA R1, R2, R3, R4')
	local shared=(FFMA FFMA FFMA FFMA FFMA FFMA FFMA FFMA FFMA FFMA.RZ FFMA.RM FFMA.RP)
	local flags=('@P0 LDG.E.STRONG.SYS R5, desc[UR8][R2.64+0x4]' 'MEMBAR.ALL.SYS' 'S2R R3, SR_TID.X' 'ERRBAR' 'CGAERRBAR'
		'CCTL.IVALL' 'LDG.E.EF.128 R4, [R2.64]' 'STG.E.STRONG.SYS [R2.64], R4')
	printf 'Fatbin elf code:\n================\narch = sm_90\n\n\tcode for sm_90\n\t\tFunction : rondo_work_f32\n'
	list 'LDG.E.128.STRONG.SYS R4, [R2.64]' "${flags[@]}" 'STG.E.128.STRONG.SYS [R2.64], R4' \
		'HFMA2.MMA R7, -RZ, RZ, 0, 4.7684e-07' "${division[@]}" "${shared[@]}"
	printf '\t\tFunction : rondo_steps_f64\n'
	list "${flags[@]}" 'LDG.E.128.STRONG.GPU R4, [R2.64]' MUFU.RCP64H DFMA DFMA DFMA DFMA DFMA DFMA DFMA FFMA \
		MUFU.RCP64H DFMA DFMA DFMA DFMA DFMA DFMA DFMA DFMA DFMA DFMA
}

room() {
	printf 'arch = sm_%s\n Function %s:\n  REG:%s STACK:%s SHARED:184 LOCAL:0 CONSTANT[0]:3840\n' "$@" >"$scratch/room"
}

# SED-SCRIPT WORDS: what it makes of the good listing is found to be wrong, and why.
expect_wrong() {
	good | sed "$1" >"$scratch/code"
	check && fail "not found: $1"
	grep -q -- "$2" "$scratch/out" || fail "no word of it: $2"
}

# ARCHITECTURE KERNEL REGISTERS STACK WORDS
expect_no_room() {
	room "${@:1:4}"
	check && fail "there is room for $3 registers and $4 bytes"
	grep -qF -- "sm_$1 $2: $5" "$scratch/out" || fail "no word of it: $5"
}

good >"$scratch/code"
room 90 rondo_work_f32 64 16
check || fail "what is good is found to be wrong"
grep -qx '2 kernels' "$scratch/out" || fail "not all kernels were read"

expect_wrong 's/MEMBAR.ALL.SYS/MEMBAR.ALL.GPU/' '^sm_90 rondo_work_f32: MEMBAR.ALL.GPU: not a fence'
expect_wrong 's/MEMBAR.ALL.SYS/MEMBAR.SC.SYS/' '^sm_90 rondo_work_f32: MEMBAR.SC.SYS: sequentially consistent'
expect_wrong '/CCTL/d' '^sm_90 rondo_steps_f64: MEMBAR.ALL.SYS without CCTL.IVALL'
expect_wrong '/MEMBAR/d' 'no fence'
expect_wrong 's/LDG.E.STRONG.SYS/LDG.E/' 'no load of a flag'
expect_wrong 's/LDG.E.STRONG.SYS/LDG.E.STRONG.GPU/' 'LDG.E.STRONG.GPU: a flag not for all'
expect_wrong 's/STG.E.STRONG.SYS/STG.E/' 'no store of a flag'
expect_wrong 's/LDG.E.128.STRONG.SYS/LDG.E.STRONG.SYS/' 'no load of 16 bytes'
expect_wrong 's/STG.E.128.STRONG.SYS/STG.E.64.STRONG.SYS/' 'STG.E.64.STRONG.SYS: neither'
expect_wrong 's/STG.E.128.STRONG.SYS/STG.E.STRONG.SYS/' 'no store of 16 bytes'
expect_wrong 's/LDG.E.EF.128/LDG.E.128.CONSTANT/' 'read-only cache'
expect_wrong 's/FCHK/FFMA/' 'FFMA, 0 of them for divisions'
expect_wrong '0,/FFMA/s/FFMA/FFMA ;\n  \/*0000*\/ FFMA/' 'rondo_work_f32: 18 FFMA, 17 of them'
expect_wrong '0,/MUFU/s/MUFU.RCP64H/DFMA/' 'rondo_steps_f64: 18 DFMA, 0 of them'
expect_wrong 's/HFMA2.MMA R7, -RZ, RZ/HFMA2.MMA R7, R1, R2/' 'rondo_work_f32: 1 HFMA2'
# shellcheck disable=SC2016
expect_wrong '/Function/,$d' 'no machine code of any kernel'

good >"$scratch/code"
expect_no_room 90 rondo_work_f32 65 0 '65 registers'
expect_no_room 90 rondo_work_f32 64 40 '40 bytes of STACK'
expect_no_room 90 rondo_work_f8e4m3 64 80 '80 bytes of STACK'
room 80 rondo_work_f8e4m3 64 80
check || fail "a GPU that converts by hand may not spill a little"

PATH=$scratch/none "$BASH" "$script" "$scratch" >"$scratch/out" 2>&1
[ $? -eq 77 ] || fail "it is not skipped without cuobjdump"
echo "tests/sass.sh finds each fault"
