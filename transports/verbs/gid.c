#include "transports/verbs/gid.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "topo/sysfs.h"

#define PORT "sys/class/infiniband/%s/ports/%d"

/* ---- Reading ------------------------------------------------------------------------------- */

/* sysfs may show interfaces of other network namespaces, which no queue pair here can use. */
static bool is_up(const char *root, const char *interface)
{
	long index = rd_sysfs_number(0, root, "sys/class/net/%s/ifindex", interface);

	if (!root[0] && (index <= 0 || index != (long)if_nametoindex(interface)))
		return false;
	return rd_sysfs_number(0, root, "sys/class/net/%s/flags", interface) & IFF_UP;
}

static enum rd_verbs_gid_type read_type(const char *root, const char *device, int port, int index)
{
	char type[32] = "";

	rd_sysfs_line(type, sizeof(type), root, PORT "/gid_attrs/types/%d", device, port, index);
	if (strcmp(type, "RoCE v2") == 0)
		return RD_VERBS_ROCE_V2;
	return strstr(type, "RoCE") ? RD_VERBS_ROCE_V1 : RD_VERBS_IB;
}

static void read_gid(
	struct rd_verbs_gid *gid, const char *root, const char *device, int port, int index)
{
	char text[64] = "", interface[IF_NAMESIZE];

	memset(gid, 0, sizeof(*gid));
	/* An index without a GID has zeros there, and no type. */
	if (!rd_sysfs_line(text, sizeof(text), root, PORT "/gids/%d", device, port, index) ||
		inet_pton(AF_INET6, text, gid->bytes) != 1)
		return;
	gid->type = read_type(root, device, port, index);
	gid->up = gid->type == RD_VERBS_IB ||
		  (rd_sysfs_line(interface, sizeof(interface), root, PORT "/gid_attrs/ndevs/%d",
			   device, port, index) &&
			  is_up(root, interface));
}

int rd_verbs_gids_read(
	struct rd_verbs_gid gids[RD_VERBS_GIDS_MAX], const char *root, const char *device, int port)
{
	int count = 0;

	while (count < RD_VERBS_GIDS_MAX &&
		rd_sysfs_exists(root, PORT "/gids/%d", device, port, count)) {
		read_gid(&gids[count], root, device, port, count);
		count++;
	}
	return count;
}

/* ---- Choosing ------------------------------------------------------------------------------ */

static bool is_mapped_ipv4(const struct rd_verbs_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)gid->bytes);
}

static bool is_link_local(const struct rd_verbs_gid *gid)
{
	return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)(const void *)gid->bytes);
}

static bool is_zero(const struct rd_verbs_gid *gid)
{
	static const uint8_t zero[RD_VERBS_GID_SIZE];

	return memcmp(gid->bytes, zero, sizeof(zero)) == 0;
}

/* Higher is better; 0: it cannot be used. */
static int merit_of(const struct rd_verbs_gid *gid)
{
	if (is_zero(gid) || !gid->up || gid->type == RD_VERBS_IB)
		return 0;
	if (gid->type == RD_VERBS_ROCE_V1)
		return 2;
	if (is_link_local(gid))
		return 1;
	return is_mapped_ipv4(gid) ? 4 : 3;
}

int rd_verbs_gid_choose(const struct rd_verbs_gid *gids, int count, bool ethernet)
{
	int best = -1, merit = 0;

	if (!ethernet)
		return count > 0 && !is_zero(&gids[0]) ? 0 : -1;
	for (int i = 0; i < count; i++)
		if (merit_of(&gids[i]) > merit) {
			merit = merit_of(&gids[i]);
			best = i;
		}
	return best;
}

/* ---- Text ---------------------------------------------------------------------------------- */

const char *rd_verbs_gid_type_text(enum rd_verbs_gid_type type)
{
	static const char *const texts[] = {
		[RD_VERBS_IB] = "InfiniBand",
		[RD_VERBS_ROCE_V1] = "RoCE v1",
		[RD_VERBS_ROCE_V2] = "RoCE v2",
	};

	return texts[type];
}

const char *rd_verbs_gid_text(const uint8_t gid[RD_VERBS_GID_SIZE], char text[RD_VERBS_GID_TEXT])
{
	const struct in6_addr *address = (const void *)gid;

	if (IN6_IS_ADDR_V4MAPPED(address))
		inet_ntop(AF_INET, gid + 12, text, RD_VERBS_GID_TEXT);
	else
		inet_ntop(AF_INET6, gid, text, RD_VERBS_GID_TEXT);
	return text;
}
