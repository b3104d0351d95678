# Sourced by benchmarks: two hosts, which are network namespaces, joined by cables. This process is in the first.

# Only root's PATH has ip and tc.
PATH=$PATH:/usr/sbin:/sbin

# enter_hosts SCRIPT [ARGUMENT]...: runs the script anew, in a network namespace of its own, unless it is there.
enter_hosts() {
	local enter=(unshare --net)
	command -v tc >/dev/null || fail "tc is missing (Debian: iproute2)"
	[ -z "${BENCH_HOSTS_INSIDE:-}" ] || return 0
	[ "$(id -u)" = 0 ] || enter+=(--map-root-user)
	"${enter[@]}" true || fail "no network namespace can be made here"
	BENCH_HOSTS_INSIDE=inside exec "${enter[@]}" "$@"
}

# The second host, which ends with the script: that holds its standard input.
start_other_host() {
	coproc other { exec unshare --net sh -c 'echo ready; exec cat'; }
	# shellcheck disable=SC2154 # coproc sets it
	other_pid=$other_PID
	read -r -u "${other[0]}" _
	ip link set dev lo up
	there ip link set dev lo up
}

there() {
	nsenter --target "$other_pid" --net "$@"
}

# add_cable NUMBER RATE: eth0, eth1, ... on both hosts, with 10.7.NUMBER.1 and 10.7.NUMBER.2; RATE none: no limit.
add_cable() {
	ip link add dev "eth$1" type veth peer name "eth$1" netns "$other_pid"
	set_card 1 "$@" env
	set_card 2 "$@" there
}

# set_card HOST NUMBER RATE WRAPPER
set_card() {
	"$4" ip addr add "10.7.$2.$1/24" dev "eth$2"
	"$4" ip link set dev "eth$2" up
	[ "$3" = none ] || "$4" tc qdisc add dev "eth$2" root tbf rate "$3" burst 64kb limit 16mb
}

median() {
	sort -n "$1" | awk '{ at[NR] = $1 } END { print (at[int((NR + 1) / 2)] + at[int(NR / 2) + 1]) / 2 }'
}
