#!/usr/bin/env bash
# cluster.sh COMMAND...: runs a command beside the controller of a Slurm cluster of its own: two nodes, n0 and n1, with
# four processors each. They are namespaces of this kernel, with a network between them, and share all files.
# Exits with 77 where Slurm or a permission is missing.
#
# All processes are in a namespace of theirs, and all files are in memory that only they see. Both end with the command,
# also when this script is killed.
set -euo pipefail

if [ "${1-}" != --inside ]; then
	for program in munged slurmctld slurmd srun ip; do
		command -v $program >/dev/null && continue
		echo "skipped: no $program (Debian: slurm-wlm, munge, iproute2)"
		exit 77
	done
	spaces=(--pid --fork --kill-child --mount --mount-proc --net --uts)
	if [ "$(id -u)" != 0 ] || ! unshare "${spaces[@]}" mount -t tmpfs tmpfs /run 2>/dev/null; then
		echo "skipped: Slurm needs root and namespaces (unshare --pid --mount --net --uts)"
		exit 77
	fi
	exec unshare "${spaces[@]}" bash "$0" --inside "$@"
fi
shift
[ $$ = 1 ] || exit 1 # what follows is for namespaces of its own
trap 'exit 143' INT TERM
finish() {
	local status=$?
	[ $status = 0 ] || [ $status = 77 ] || tail -n 20 /run/slurm/*.log
}
trap finish EXIT

mount -t tmpfs tmpfs /run
mkdir -p /run/slurm/state /run/slurm/tmp-n0 /run/slurm/tmp-n1
cat >/run/slurm/hosts <<END
127.0.0.1 localhost
10.8.0.100 controller
10.8.0.1 n0
10.8.0.2 n1
END
mount --bind /run/slurm/hosts /etc/hosts
cat >/run/slurm/slurm.conf <<END
ClusterName=rondo
SlurmctldHost=controller
SlurmUser=root
AuthInfo=socket=/run/slurm/munge
StateSaveLocation=/run/slurm/state
SlurmctldPidFile=/run/slurm/controller.pid
SlurmctldLogFile=/run/slurm/controller.log
SlurmdSpoolDir=/run/slurm/%n
SlurmdPidFile=/run/slurm/%n.pid
SlurmdLogFile=/run/slurm/%n.log
TmpFS=/run/slurm/tmp-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MailProg=/bin/true
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=10000
NodeName=n[0-1] CPUs=4
PartitionName=all Nodes=ALL Default=YES
END
# Unused. Slurm looks for cgroups nevertheless, unless it is given their version.
echo "CgroupPlugin=cgroup/v1" >/run/slurm/cgroup.conf
export SLURM_CONF=/run/slurm/slurm.conf TMPDIR=/run

# A bridge of this namespace joins the nodes.
hostname controller
ip link set lo up
ip link add switch type bridge
ip address add 10.8.0.100/24 dev switch
ip link set switch up
for node in n0 n1; do
	ip netns add $node
	ip link add $node type veth peer name eth0 netns $node
	ip link set $node master switch up
	ip -n $node link set lo up
	ip -n $node address add 10.8.0.$((${node#n} + 1))/24 dev eth0
	ip -n $node link set eth0 up
done

(umask 077 && head -c 128 /dev/urandom >/run/slurm/key)
munged --force --key-file=/run/slurm/key --socket=/run/slurm/munge --seed-file=/run/slurm/seed \
	--log-file=/run/slurm/munge.log --pid-file=/run/slurm/munge.pid
slurmctld
for node in n0 n1; do
	# shellcheck disable=SC2016 # of the inner shell
	nsenter --net=/run/netns/$node unshare --uts sh -c 'hostname $1 && exec slurmd -N $1' sh $node
done
for ((i = 0; ; i++)); do
	[ "$(sinfo --noheader --format '%t %D')" != "idle 2" ] || break
	if [ $i = 300 ]; then
		echo "the nodes do not get ready:"
		sinfo
		exit 1
	fi
	sleep 0.1
done

"$@"
