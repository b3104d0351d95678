#!/usr/bin/env bash
# conformance.sh BUILD LIBRARY: command lines of torchrun, under rondo-run (conformance/run.py).
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=support.sh
. "$here/support.sh"
command -v python3 >/dev/null || skip "there is no python3"
exec python3 -B "$here/conformance/run.py" "$1"
