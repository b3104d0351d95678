#!/usr/bin/env bash
# kubernetes.sh BUILD LIBRARY: the indexed job of docs/examples/kubernetes.yaml, in emulated pods (pods.sh).
set -euo pipefail
# shellcheck source=support.sh
. "$(dirname "$0")/support.sh"
here=$(cd "$(dirname "$0")" && pwd) build=$1
manifest=$here/../../../docs/examples/kubernetes.yaml
reason=$("$here/pods.sh" "$manifest" true) || skip "${reason#skipped: }"

if /usr/bin/python3 -c "import yaml" 2>/dev/null; then
	try "the manifest" /usr/bin/python3 "$here/manifest.py" "$manifest"
else
	echo "not tried: the manifest (Debian: python3-yaml)"
fi

try "pods of a headless service" "$here/pods.sh" "$manifest" "$build/examples/all_reduce"
expect_sum_of_4

# Without the service no pod finds another.
sed /subdomain:/d "$manifest" >"$scratch/alone.yaml"
if timeout 60 "$here/pods.sh" "$scratch/alone.yaml" "$build/examples/all_reduce" >"$scratch/out" 2>&1; then
	echo "pods without a domain should fail"
	exit 1
fi
grep -q 'JOB_COMPLETION_INDEX is 1, but the host name "train-1" has no domain: give the pods the `subdomain`' "$scratch/out" || {
	cat "$scratch/out"
	exit 1
}

# Several ranks in each pod: the command of docs/launchers.md.
export build
try "a rondo-run in each pod" "$here/pods.sh" "$manifest" sh -c 'exec "$build/rondo-run" --nnodes 4 \
	--node-rank $JOB_COMPLETION_INDEX --master-addr train-0.train --nproc-per-node 2 "$build/examples/all_reduce"'
expect "rank 0 of 8: the sum is 36" "rank 7 of 8: the sum is 36"
