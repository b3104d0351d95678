#!/usr/bin/env bash
# ssh.sh BUILD LIBRARY: rondo-run --hosts starts jobs on two hosts, network namespaces with an sshd each, and reports
# hosts that cannot be reached. Keys and configurations are the test's own: in its mount namespace they stand in the
# place of the system's. Its process namespace ends all that it starts.
set -euo pipefail
# shellcheck source=support.sh
. "$(dirname "$0")/support.sh"
here=$(cd "$(dirname "$0")" && pwd) build=$(cd "$1" && pwd)
sshd=$(PATH=$PATH:/usr/sbin:/sbin command -v sshd) || skip "no sshd (Debian: openssh-server)"

if [ ! "${INSIDE_NAMESPACES-}" ]; then
	[ "$(id -u)" = 0 ] || skip "sshd needs root"
	command -v ip >/dev/null || skip "no ip (Debian: iproute2)"
	unshare --mount --net --pid --fork --mount-proc true 2>/dev/null || skip "no namespaces here (unshare)"
	! grep -q '^root:!' /etc/shadow || skip "root's account is locked"
	INSIDE_NAMESPACES=yes unshare --mount --net --pid --fork --kill-child --mount-proc "$here/ssh.sh" "$@" && exit
	exit $?
fi

# await COMMAND...: repeats it until it succeeds.
await() {
	local until=$((SECONDS + 30))
	until "$@"; do
		[ $SECONDS -lt $until ] || {
			echo "waited 30 s for: $*"
			exit 1
		}
	done
}

# ---- Hosts a and b: 10.77.0.1 and 10.77.0.2 --------------------------------------------------------------------------

mount -t tmpfs tmpfs /run
mkdir /run/sshd
for key in host user other; do
	ssh-keygen -q -t ed25519 -N '' -f "$scratch/$key"
done
cp "$scratch/user.pub" "$scratch/authorized"
cat >"$scratch/sshd_config" <<END
HostKey $scratch/host
AuthorizedKeysFile $scratch/authorized
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile none
END
cat >"$scratch/ssh_config" <<END
Host a b stranger
	HostKeyAlias known
Host a stranger closed unknown
	HostName 10.77.0.1
Host b
	HostName 10.77.0.2
Host closed
	Port 23
Host stranger
	IdentityFile $scratch/other
Host * !stranger
	IdentityFile $scratch/user
Host *
	IdentitiesOnly yes
	IdentityAgent none
	UserKnownHostsFile $scratch/known
	StrictHostKeyChecking yes
END
echo "known $(cat "$scratch/host.pub")" >"$scratch/known"
mount --bind "$scratch/ssh_config" /etc/ssh/ssh_config

ip link set lo up
ip link add bridge type bridge
ip address add 10.77.0.254/24 dev bridge
ip link set bridge up
for host in 1 2; do
	unshare --net "$sshd" -D -e -f "$scratch/sshd_config" -o "ListenAddress=0.0.0.0" 2>"$scratch/sshd.$host" &
	pid=$!
	# The program starts in the new namespace.
	await test ! /proc/$pid/ns/net -ef /proc/self/ns/net
	ip link add "host$host" master bridge type veth peer name eth0 netns $pid
	ip link set "host$host" up
	nsenter --net --target $pid sh -c "ip link set lo up; ip link set eth0 up; ip address add 10.77.0.$host/24 dev eth0"
	await grep -q "Server listening" "$scratch/sshd.$host"
done

# ---- Jobs ------------------------------------------------------------------------------------------------------------

# refuse STATUS LINE COMMAND...: fails unless the command ends with this status, and LINE is all that it prints.
refuse() {
	local status=0 wanted=$1 line=$2
	shift 2
	echo "$*"
	timeout 100 "$@" >"$scratch/out" 2>&1 </dev/null || status=$?
	if [ $status != "$wanted" ] || [ "$(cat "$scratch/out")" != "$line" ]; then
		echo "wanted status $wanted and \"$line\", got $status and:"
		cat "$scratch/out"
		exit 1
	fi
}

# left MARK: whether a process has this argument.
left() {
	grep -qsz -- "^$1\$" /proc/[0-9]*/cmdline
}

# gone MARK: waits until no process has this argument.
gone() {
	await eval "! left $1"
}

run=$build/rondo-run
try "two hosts of two ranks" "$run" --hosts a,b --nproc-per-node 2 "$build/examples/all_reduce"
expect "rank 0 of 4: the sum is 10" "rank 3 of 4: the sum is 10"

cd "$scratch"
export CHOSEN=front TORCH_TEST="two words"
try "folder and variables" "$run" -x CHOSEN -x GIVEN="it's \"so\"" --hosts a,b --tag -- sh -c \
	'echo "$PWD $MASTER_ADDR $CHOSEN $GIVEN $TORCH_TEST $1"' sh "an argument"
expect "[0] $scratch 10.77.0.1 front it's \"so\" two words an argument" \
	"[1] $scratch 10.77.0.1 front it's \"so\" two words an argument"

try "one rank and two" "$run" --hosts a:1,b:2 "$build/examples/all_reduce"
expect "rank 0 of 3: the sum is 6" "rank 2 of 3: the sum is 6"

try "one host" "$run" --hosts b --nproc-per-node 2 "$build/examples/all_reduce"
expect "rank 1 of 2: the sum is 3"

# The end of a connection ends its host's ranks, and then the others. $pid is the sshd of host b.
echo "the loss of a connection"
mkfifo "$scratch/lost"
timeout 100 "$run" --hosts a,b --grace 1 sh -c 'echo $RANK; exec sleep 1000.3' >"$scratch/lost" 2>"$scratch/err" </dev/null &
front=$!
{ read -r _ && read -r _; } <"$scratch/lost"
for session in /proc/[0-9]*; do
	if grep -qsz "^sshd: root@notty" "$session/cmdline" && [ "$session/ns/net" -ef /proc/$pid/ns/net ]; then
		kill -s KILL "${session#/proc/}"
	fi
done
status=0
wait $front || status=$?
if [ $status != 1 ] || ! grep -qx "rondo-run: host b: the connection of ssh is lost" "$scratch/err"; then
	echo "status $status:"
	cat "$scratch/err"
	exit 1
fi
gone 1000.3

# Host b runs two ranks, and reports alone.
echo "a rank fails on host b"
status=0
timeout 100 "$run" --hosts a:1,b:2 sh -c '[ $RANK != 2 ] && exec sleep 1000.1; echo last words >&2; exit 3' \
	>"$scratch/out" 2>&1 </dev/null || status=$?
if [ $status != 3 ] || [ "$(grep -c "first failure" "$scratch/out")" != 1 ] ||
	! grep -q '^rondo-run: first failure: rank 2 (pid [0-9]*) exited with status 3$' "$scratch/out" ||
	! grep -q '^rondo-run:   host: .*, node 1, local rank 1$' "$scratch/out" ||
	! grep -qx 'rondo-run:   | last words' "$scratch/out"; then
	echo "status $status:"
	cat "$scratch/out"
	exit 1
fi
gone 1000.1

try "a restart on all hosts" "$run" --hosts a,b --max-restarts 1 sh -c \
	'echo $RANK $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT$RANK != 01 ]'
expect "0 0" "1 0" "0 1" "1 1"

# A signal to the front, or its death, ends the ranks.
for signal in INT KILL; do
	echo "SIG$signal to the front"
	mkfifo "$scratch/$signal"
	"$run" --hosts a,b sh -c 'echo $RANK; exec sleep 1000.2' >"$scratch/$signal" 2>"$scratch/err" </dev/null &
	front=$!
	{ read -r _ && read -r _; } <"$scratch/$signal"
	kill -s $signal $front
	status=0
	wait $front 2>/dev/null || status=$?
	[ $status = $((128 + $(kill -l $signal))) ] || {
		echo "status $status:"
		cat "$scratch/err"
		exit 1
	}
	gone 1000.2
done

# ---- Hosts that cannot be reached: nothing starts on the others ------------------------------------------------------

refuse 1 "rondo-run: host closed: ssh: connect to host 10.77.0.1 port 23: Connection refused" \
	"$run" --hosts a,closed echo ran
refuse 1 "rondo-run: host stranger: root@10.77.0.1: Permission denied (publickey)." "$run" --hosts b,stranger echo ran
refuse 1 "rondo-run: host unknown: Host key verification failed." "$run" --hosts unknown,a echo ran
refuse 1 "rondo-run: host a: cannot run rondo-run there: install Rondo in the PATH of ssh's shell" \
	env PATH="$build:$PATH" rondo-run --hosts a echo ran
refuse 1 "rondo-run: cannot find the working directory: No such file or directory" \
	sh -c "mkdir $scratch/away; cd $scratch/away; rmdir $scratch/away; exec $run --hosts a echo ran"
