#!/usr/bin/env bash
# pods.sh MANIFEST PROGRAM [ARGUMENT]...: runs the program in each pod of an indexed job. No Kubernetes runs here. It is
# emulated: a pod is a process with a host name, an /etc/hosts of its own, as the kubelet writes it, and the variables of
# the manifest and of its index. All pods are in one network. Exits with 77 where that cannot be.
set -euo pipefail

if [ "${1-}" != --inside ]; then
	spaces=(--map-root-user --pid --fork --kill-child --mount --mount-proc --uts --net)
	if ! unshare "${spaces[@]}" ip link set lo up 2>/dev/null; then
		echo "skipped: no namespaces here (unshare --map-root-user --pid --mount --uts --net), or no ip (iproute2)"
		exit 77
	fi
	exec unshare "${spaces[@]}" bash "$0" --inside "$@"
fi
shift
[ $$ = 1 ] || exit 1 # what follows is for namespaces of its own
trap 'exit 143' INT TERM
manifest=$1
shift

# value KEY: of a line "KEY: VALUE" of the manifest's job.
value() {
	sed -n '/^kind: Job/,$p' "$manifest" | sed -n "s/^ *$1: *//p" | head -1
}
job=$(sed -n '/^kind: Job/,/^spec:/s/^metadata: {name: \(.*\)}$/\1/p' "$manifest")
count=$(value completions)
subdomain=$(value subdomain)
domain=${subdomain:+.$subdomain.default.svc.cluster.local}
mapfile -t variables < <(sed -n 's/^ *- {name: \([A-Z_]*\), value: "\(.*\)"}$/\1=\2/p' "$manifest")

ip link set lo up
mount -t tmpfs tmpfs /run
pods=()
for ((index = 0; index < count; index++)); do
	# The names of pod 0, in full and by the search list, come from DNS in a cluster; here from the file.
	{
		echo "127.0.0.1 localhost"
		[ $index = 0 ] || echo "127.0.0.1 $job-$index$domain $job-$index"
		echo "127.0.0.1 $job-0$domain $job-0${subdomain:+ $job-0.$subdomain}"
	} >"/run/hosts.$index"
	# shellcheck disable=SC2016 # of the inner shell
	env JOB_COMPLETION_INDEX=$index "${variables[@]}" unshare --mount --uts sh -c '
		hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"' \
		sh "$job-$index" "/run/hosts.$index" "$@" &
	pods+=($!)
done
failed=
for pod in "${pods[@]}"; do
	wait "$pod" || failed=yes
done
[ ! "$failed" ]
