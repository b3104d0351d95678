#!/usr/bin/env bash
# kubernetes.sh BUILD LIBRARY: two pods of an indexed job. They are emulated: each has a host name and an /etc/hosts of
# its own, as the kubelet writes it, in namespaces. No Kubernetes runs here.
set -euo pipefail
# shellcheck source=support.sh
. "$(dirname "$0")/support.sh"
build=$1
unshare --map-root-user --mount --uts true 2>/dev/null || skip "no namespaces here (unshare --mount --uts)"

# The name of pod 0 comes from DNS in a cluster; here from the file.
cat >"$scratch/job.sh" <<'END'
index=$1 domain=$2 scratch=$3 program=$4
hostname "train-$index" || exit 99
{
	echo "127.0.0.1 localhost"
	if [ "$index" != 0 ]; then
		echo "127.0.0.1 train-$index$domain train-$index"
	fi
	echo "127.0.0.1 train-0$domain train-0"
} >"$scratch/hosts.$index"
mount --bind "$scratch/hosts.$index" /etc/hosts || exit 99
JOB_COMPLETION_INDEX=$index WORLD_SIZE=2 RONDO_PORT=$PORT exec "$program"
END

pods() {
	local pids=() index failed=
	for index in 0 1; do
		unshare --map-root-user --mount --uts sh "$scratch/job.sh" $index "$1" "$scratch" "$build/examples/all_reduce" &
		pids+=($!)
	done
	wait "${pids[0]}" || failed=yes
	wait "${pids[1]}" || failed=yes
	[ ! "$failed" ]
}
export -f pods
export scratch build PORT=$((12000 + $$ % 8000))

try "two pods of a headless service" bash -c 'pods .train.default.svc.cluster.local'
expect "rank 0 of 2: the sum is 3" "rank 1 of 2: the sum is 3"

# Without the service no pod finds another.
if timeout 60 bash -c 'pods ""' >"$scratch/out" 2>&1; then
	echo "pods without a domain should fail"
	exit 1
fi
grep -q 'JOB_COMPLETION_INDEX is 1, but the host name "train-1" has no domain: give the pods the `subdomain`' "$scratch/out" || {
	cat "$scratch/out"
	exit 1
}
