#!/usr/bin/env bash
# no_fma.sh KERNELS_DIR: as each file of kernels there (NAME.fatbin) was compiled, a product is rounded before it is
# added to something. Asks nvcc, with the same flags, for the code of two lines.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/probe.cu" <<'END'
extern "C" __global__ void probe(float *f, double *d)
{
	f[0] = f[1] * f[2] + f[3];
	d[0] = d[1] * d[2] - d[3];
}
END

asked=
for file in "$1"/*.fatbin.command; do
	fatbin=${file%.command}
	# "VERSION nvcc;-fatbin;...;SOURCE", as cmake/fatbin.cmake writes it
	IFS=';' read -ra command <<<"$(cut -d' ' -f2- "$file")"
	flags=()
	for word in "${command[@]:1:${#command[@]}-2}"; do
		case $word in
		-fatbin | -gencode=* | -I*) ;;
		*) flags+=("$word") ;;
		esac
	done
	[ "$asked" = "${flags[*]}" ] && continue
	asked=${flags[*]}
	"${command[0]}" -ptx -arch=compute_90 "${flags[@]}" -o "$scratch/probe.ptx" "$scratch/probe.cu"
	if grep -n 'fma\.' "$scratch/probe.ptx"; then
		echo "$fatbin was compiled with ${flags[*]}: products are not rounded"
		exit 1
	fi
	grep -q 'mul\.' "$scratch/probe.ptx"
done
[ -n "$asked" ]
echo "compiled with $asked"
