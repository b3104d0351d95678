#include "descriptors.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void count_one(struct descriptors *descriptors, int fd, const char *target)
{
	struct sockaddr_storage peer;
	socklen_t size = sizeof(int), peer_size = sizeof(peer);
	int type = 0;

	descriptors->all++;
	descriptors->eventfds += strcmp(target, "anon_inode:[eventfd]") == 0;
	descriptors->epolls += strcmp(target, "anon_inode:[eventpoll]") == 0;
	descriptors->timers += strcmp(target, "anon_inode:[timerfd]") == 0;
	descriptors->memory += strncmp(target, "/memfd:", 7) == 0;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0)
		descriptors->packet_sockets += type == SOCK_SEQPACKET;
	descriptors->connections += getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 &&
				    peer.ss_family == AF_INET;
}

struct descriptors descriptors_count(void)
{
	struct descriptors descriptors = { 0 };
	DIR *all = opendir("/proc/self/fd");
	const struct dirent *entry;

	while ((entry = readdir(all))) {
		char target[64] = "";

		if (readlinkat(dirfd(all), entry->d_name, target, sizeof(target) - 1) > 0)
			count_one(&descriptors, atoi(entry->d_name), target);
	}
	closedir(all);
	return descriptors;
}

bool descriptors_are_of(
	const struct descriptors *now, const struct descriptors *before, int comms_over_tcp)
{
	return now->eventfds == before->eventfds && now->timers == before->timers &&
	       now->memory == before->memory && now->packet_sockets == before->packet_sockets &&
	       now->connections <= before->connections + comms_over_tcp &&
	       now->all <= before->all + 2 * comms_over_tcp + 1 &&
	       now->epolls <= before->epolls + comms_over_tcp + 1;
}

int descriptors_report(struct rank_env *env, const char *when, const struct descriptors *before,
	const struct descriptors *after)
{
	return world_report(env,
		"%s: eventfds %d, then %d; epolls %d, then %d; timers %d, then %d; memory %d, then "
		"%d; sockets %d, then %d; connections %d, then %d; all %d, then %d",
		when, before->eventfds, after->eventfds, before->epolls, after->epolls,
		before->timers, after->timers, before->memory, after->memory,
		before->packet_sockets, after->packet_sockets, before->connections,
		after->connections, before->all, after->all);
}
