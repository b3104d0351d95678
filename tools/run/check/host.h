/*
 * One host before a job: its name, limits and memory, and its routes to others. Plain data, which
 * ranks exchange.
 */
#ifndef RUN_CHECK_HOST_H
#define RUN_CHECK_HOST_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/host_name.h"
#include "net/address.h"

struct check_route {
	struct sockaddr_storage from; /* its family is 0 where there is no route... */
	int error; /* ...for this errno */
	char interface[IF_NAMESIZE];
	int mtu; /* 0: not known */
	int speed; /* Mbit/s; 0: not known */
};

struct check_host {
	char name[RD_HOST_NAME_SIZE];
	char resolved[RD_NUMERIC_ADDRESS]; /* of the host's own name; "": it has no address */
	bool is_loopback; /* that address */
	struct check_route route; /* to MASTER_ADDR */
	uint64_t shm_free; /* bytes of /dev/shm; 0: none */
	bool has_memfd, has_rdma;
	uint64_t files, locked; /* soft limits */
};

void check_host_read(struct check_host *host, const char *master);
void check_route_read(struct check_route *route, const struct sockaddr_storage *to);

#endif
