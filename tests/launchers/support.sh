# Sourced by the tests of launchers: a scratch folder, and checks of a command's output.
# shellcheck shell=bash
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT RONDO_PORT RONDO_RENDEZVOUS_FD RONDO_LAUNCHER
export OMP_NUM_THREADS=1

skip() {
	echo "skipped: $*"
	exit 77
}

# try WHAT COMMAND...: fails where the command does. Its output is in $scratch/out.
try() {
	what=$1
	shift
	echo "$what"
	if ! timeout 100 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null; then
		echo "$what failed:"
		cat "$scratch/out" "$scratch/err"
		exit 1
	fi
}

# expect LINE...: the output of the last command has all of these lines.
expect() {
	for line; do
		grep -qxF -- "$line" "$scratch/out" && continue
		echo "no line \"$line\" in the output of $what:"
		cat "$scratch/out" "$scratch/err"
		exit 1
	done
}
