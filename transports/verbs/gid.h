/*
 * The GIDs of a port: addresses, of which RoCE has one for each IP address of its interface and
 * version of the protocol. Both ends of a queue pair must use the same version.
 */
#ifndef RD_VERBS_GID_H
#define RD_VERBS_GID_H

#include <stdbool.h>
#include <stdint.h>

#define RD_VERBS_GIDS_MAX 256
#define RD_VERBS_GID_SIZE 16
#define RD_VERBS_GID_TEXT 48

enum rd_verbs_gid_type { RD_VERBS_IB, RD_VERBS_ROCE_V1, RD_VERBS_ROCE_V2 };

struct rd_verbs_gid {
	uint8_t bytes[RD_VERBS_GID_SIZE]; /* all zero: none at this index */
	enum rd_verbs_gid_type type;
	bool up; /* its interface is of this network namespace, and up; always true of IB */
};

/*
 * Reads the table of a port from sysfs below a root ("" for this machine). Returns the number of
 * indices, at most RD_VERBS_GIDS_MAX.
 */
int rd_verbs_gids_read(struct rd_verbs_gid gids[RD_VERBS_GIDS_MAX], const char *root,
	const char *device, int port);

/*
 * Returns the index of the GID that routes farthest, or -1 if there is none. InfiniBand: index 0.
 * RoCE, of interfaces that are up: version 2 with an IPv4 address, then with a global IPv6 address,
 * then version 1, then version 2 of one network. The first of equals wins.
 */
int rd_verbs_gid_choose(const struct rd_verbs_gid *gids, int count, bool ethernet);

/* "InfiniBand", "RoCE v1" or "RoCE v2" */
const char *rd_verbs_gid_type_text(enum rd_verbs_gid_type type);

/* "10.0.0.1" or "fe80::1"; returns text. */
const char *rd_verbs_gid_text(const uint8_t gid[RD_VERBS_GID_SIZE], char text[RD_VERBS_GID_TEXT]);

#endif
