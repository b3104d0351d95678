#include "transports/verbs/port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

#define DEVICES "sys/class/infiniband"
#define LIST_SIZE 256

/* ---- All ports ----------------------------------------------------------------------------- */

/* Called for each port, by device and number, until it returns something else than 0. */
typedef int visit(struct rd_verbs_port *port, void *argument);

/* "400 Gb/sec (4X NDR)" */
static int rate_mbps(const char *text)
{
	double rate = strtod(text, NULL);

	return rate > 0 && rate < 1e6 ? (int)(rate * 1000 + 0.5) : 0;
}

static void read_port(
	struct rd_verbs_port *port, const char *root, const char *device, const char *number)
{
	char line[64];
	long lid;

	*port = (struct rd_verbs_port){ .number = atoi(number), .gid_index = -1 };
	snprintf(port->device, sizeof(port->device), "%s", device);
	if (rd_sysfs_line(line, sizeof(line), root, DEVICES "/%s/ports/%s/state", device, number))
		port->active = strstr(line, "ACTIVE") != NULL;
	if (rd_sysfs_line(line, sizeof(line), root, DEVICES "/%s/ports/%s/rate", device, number))
		port->speed_mbps = rate_mbps(line);
	if (rd_sysfs_line(
		    line, sizeof(line), root, DEVICES "/%s/ports/%s/link_layer", device, number))
		port->ethernet = strcmp(line, "Ethernet") == 0;
	lid = rd_sysfs_number(0, root, DEVICES "/%s/ports/%s/lid", device, number);
	port->lid = lid > 0 && lid <= UINT16_MAX ? (uint16_t)lid : 0;
}

static int visit_device(const char *root, const char *device, visit *visitor, void *argument)
{
	char(*numbers)[RD_SYSFS_NAME_SIZE], directory[sizeof(DEVICES) + RD_SYSFS_NAME_SIZE + 8];
	struct rd_verbs_port port;
	int count, result = 0;

	snprintf(directory, sizeof(directory), DEVICES "/%s/ports", device);
	count = rd_sysfs_list(&numbers, root, directory);
	for (int i = 0; i < count && !result; i++) {
		read_port(&port, root, device, numbers[i]);
		if (port.number >= 1 && port.number <= UINT8_MAX)
			result = visitor(&port, argument);
	}
	free(numbers);
	return result;
}

static int visit_ports(const char *root, visit *visitor, void *argument)
{
	char(*devices)[RD_SYSFS_NAME_SIZE];
	int count = rd_sysfs_list(&devices, root, DEVICES), result = 0;

	for (int i = 0; i < count && !result; i++)
		result = visit_device(root, devices[i], visitor, argument);
	free(devices);
	return result;
}

bool rd_verbs_devices_exist(const char *root)
{
	char(*devices)[RD_SYSFS_NAME_SIZE];
	int count = rd_sysfs_list(&devices, root, DEVICES);

	free(devices);
	return count > 0;
}

/* ---- For people ---------------------------------------------------------------------------- */

/* Appends "mlx5_0:1 (down)". */
static int list_port(struct rd_verbs_port *port, void *argument)
{
	char *list = argument;
	size_t length = strlen(list);

	snprintf(list + length, LIST_SIZE - length, "%s%s:%d%s", length ? ", " : "", port->device,
		port->number, port->active ? "" : " (not active)");
	return 0;
}

static const char *list_ports(char list[LIST_SIZE], const char *root)
{
	list[0] = '\0';
	visit_ports(root, list_port, list);
	return list[0] ? list : "none";
}

static void log_port(const struct rd_verbs_port *port, int index)
{
	char text[RD_VERBS_GID_TEXT];

	rd_log(RD_INFO, RD_NET, "NET/IB : Using [%d]%s:%d/%s, %.1f Gbit/s, LID %u, GID %d: %s",
		index, port->device, port->number, rd_verbs_gid_type_text(port->gid.type),
		port->speed_mbps / 1000.0, port->lid, port->gid_index,
		rd_verbs_gid_text(port->gid.bytes, text));
}

/* ---- Choosing ------------------------------------------------------------------------------ */

struct choosing {
	struct rd_verbs_ports *ports;
	const char *root;
	int gid_index; /* RONDO_IB_GID_INDEX; -1: not set */
	bool named; /* RONDO_IB_DEVICE names the ports */
	const char *device; /* NULL: any */
	int number; /* 0: any */
	int found; /* ports with that name, active or not */
};

/* Without a GID the port cannot be used. */
static int choose_gid(struct rd_verbs_port *port, const struct choosing *all)
{
	struct rd_verbs_gid gids[RD_VERBS_GIDS_MAX];
	int count = rd_verbs_gids_read(gids, all->root, port->device, port->number);
	int best = rd_verbs_gid_choose(gids, count, port->ethernet);

	if (all->gid_index >= 0) {
		best = all->gid_index;
		if (best >= count || !memcmp(gids[best].bytes, (uint8_t[16]){ 0 }, 16))
			best = -1;
		/* A port that the user has named must be usable; another is left out. */
		if (best < 0 && all->named)
			return rd_fail(RONDO_SETTING,
				"RONDO_IB_GID_INDEX is %d, and %s has no such GID at port %d: see "
				"/" DEVICES "/%s/ports/%d/gids",
				all->gid_index, port->device, port->number, port->device,
				port->number);
	}
	port->gid_index = best;
	if (best >= 0)
		port->gid = gids[best];
	return 0;
}

static bool is_chosen(const struct rd_verbs_ports *ports, const struct rd_verbs_port *port)
{
	for (int i = 0; i < ports->count; i++)
		if (strcmp(ports->at[i].device, port->device) == 0 &&
			ports->at[i].number == port->number)
			return true;
	return false;
}

static int choose_port(struct rd_verbs_port *port, void *argument)
{
	struct choosing *all = argument;
	int err;

	if ((all->device && strcmp(port->device, all->device)) ||
		(all->number && port->number != all->number))
		return 0;
	all->found++;
	if (!port->active || is_chosen(all->ports, port))
		return 0;
	err = choose_gid(port, all);
	if (err)
		return err;
	if (port->gid_index < 0 || all->ports->count == RD_VERBS_RAILS_MAX)
		rd_log(RD_INFO, RD_NET, "NET/IB : %s:%d is not used: %s", port->device,
			port->number,
			port->gid_index >= 0  ? "enough others are"
			: all->gid_index >= 0 ? "it has no GID of RONDO_IB_GID_INDEX"
					      : "no GID of an interface that is up");
	else
		all->ports->at[all->ports->count++] = *port;
	return 0;
}

/* One name of RONDO_IB_DEVICE, "mlx5_0" or "mlx5_0:1". */
static int choose_named(struct choosing *all, char *name)
{
	char list[LIST_SIZE], *colon = strchr(name, ':');
	int before = all->ports->count, err;

	all->device = name;
	all->number = all->found = 0;
	if (colon) {
		*colon = '\0';
		all->number = atoi(colon + 1);
	}
	if (!colon || all->number > 0) {
		err = visit_ports(all->root, choose_port, all);
		if (err || all->ports->count > before)
			return err;
	}
	if (colon)
		*colon = ':';
	return rd_fail(RONDO_SETTING, "RONDO_IB_DEVICE names \"%s\", which %s: there are %s", name,
		all->found ? "has no active port left that can be used"
			   : "is no RDMA device or port",
		list_ports(list, all->root));
}

static int choose_all_named(struct choosing *all, const char *names)
{
	char text[RD_STRING_MAX], *rest = NULL;
	int err = 0;

	snprintf(text, sizeof(text), "%s", names);
	for (char *name = strtok_r(text, ",", &rest); name && !err;
		name = strtok_r(NULL, ",", &rest))
		err = choose_named(all, name);
	return err;
}

int rd_verbs_ports_choose(struct rd_verbs_ports *ports, const char *root, const char *nearest,
	const struct rd_settings *settings)
{
	struct choosing all = {
		.ports = ports,
		.root = root,
		.gid_index = settings->ib_gid_index,
		.named = settings->ib_device[0],
	};
	char list[LIST_SIZE];
	int err;

	ports->count = 0;
	if (!rd_verbs_devices_exist(root))
		return rd_fail(RONDO_UNSUPPORTED, "no RDMA device (nothing in /" DEVICES ")");
	if (all.named) {
		err = choose_all_named(&all, settings->ib_device);
	} else {
		all.device = nearest;
		err = visit_ports(root, choose_port, &all);
		all.device = NULL;
		if (!err && ports->count == 0)
			err = visit_ports(root, choose_port, &all);
	}
	if (err)
		return err;
	if (ports->count == 0 && all.gid_index >= 0)
		return rd_fail(RONDO_SETTING,
			"RONDO_IB_GID_INDEX is %d, and no active RDMA port has such a GID: %s",
			all.gid_index, list_ports(list, root));
	if (ports->count == 0)
		return rd_fail(RONDO_UNSUPPORTED, "no RDMA port is active and has a GID: %s",
			list_ports(list, root));
	for (int i = 0; i < ports->count; i++)
		log_port(&ports->at[i], i);
	return 0;
}
