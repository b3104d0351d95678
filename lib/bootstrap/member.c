#include "bootstrap/member.h"

#include <stdio.h>

const char *rd_member_name(const struct rd_member *member, int rank, char name[RD_RANK_NAME_SIZE])
{
	snprintf(name, RD_RANK_NAME_SIZE, "rank %d (host %s, pid %lld)", rank,
		member->place.host_name, (long long)member->place.pid);
	return name;
}
