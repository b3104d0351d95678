/* The RDMA ports and GIDs that verbs chooses, from tables and from trees like those of sysfs. */
#include <criterion/criterion.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file_tree.h"
#include "transports/verbs/gid.h"
#include "transports/verbs/port.h"
#include "transports/verbs/status.h"

/* ---- GIDs ---------------------------------------------------------------------------------- */

struct row {
	const char *address;
	enum rd_verbs_gid_type type;
	bool up;
};

static int choose(const struct row *rows, int count, bool ethernet)
{
	struct rd_verbs_gid gids[RD_VERBS_GIDS_MAX] = { 0 };

	for (int i = 0; i < count; i++) {
		gids[i].type = rows[i].type;
		gids[i].up = rows[i].up;
		cr_assert_eq(inet_pton(AF_INET6, rows[i].address, gids[i].bytes), 1);
	}
	return rd_verbs_gid_choose(gids, count, ethernet);
}

#define CHOOSE(ethernet, ...) \
	choose((struct row[]){ __VA_ARGS__ }, \
		(int)(sizeof((struct row[]){ __VA_ARGS__ }) / sizeof(struct row)), ethernet)

Test(verbs_gid, of_roce_is_version_2_with_an_ipv4_address)
{
	cr_assert_eq(CHOOSE(true, { "fe80::1", RD_VERBS_ROCE_V1, true },
			     { "fe80::1", RD_VERBS_ROCE_V2, true },
			     { "2001:db8::1", RD_VERBS_ROCE_V2, true },
			     { "::ffff:10.0.0.1", RD_VERBS_ROCE_V1, true },
			     { "::ffff:10.0.0.1", RD_VERBS_ROCE_V2, true },
			     { "::ffff:10.0.0.2", RD_VERBS_ROCE_V2, true }),
		4);
}

Test(verbs_gid, belongs_to_an_interface_that_is_up)
{
	cr_assert_eq(CHOOSE(true, { "::ffff:10.0.0.1", RD_VERBS_ROCE_V2, false },
			     { "::ffff:10.0.0.2", RD_VERBS_ROCE_V2, true }),
		1);
	cr_assert_eq(CHOOSE(true, { "::ffff:10.0.0.1", RD_VERBS_ROCE_V2, false }), -1);
}

Test(verbs_gid, without_ipv4_is_a_global_one_then_version_1)
{
	cr_assert_eq(CHOOSE(true, { "fe80::1", RD_VERBS_ROCE_V1, true },
			     { "2001:db8::1", RD_VERBS_ROCE_V2, true }),
		1);
	cr_assert_eq(CHOOSE(true, { "fe80::1", RD_VERBS_ROCE_V2, true },
			     { "fe80::1", RD_VERBS_ROCE_V1, true }),
		1);
	cr_assert_eq(CHOOSE(true, { "fe80::1", RD_VERBS_ROCE_V2, true }), 0);
}

Test(verbs_gid, of_infiniband_is_the_first)
{
	cr_assert_eq(
		CHOOSE(false, { "fe80::1", RD_VERBS_IB, true }, { "fe80::2", RD_VERBS_IB, true }),
		0);
	cr_assert_eq(CHOOSE(false, { "::", RD_VERBS_IB, true }), -1);
}

Test(verbs_gid, is_shown_as_an_address)
{
	char text[RD_VERBS_GID_TEXT];
	uint8_t gid[RD_VERBS_GID_SIZE];

	inet_pton(AF_INET6, "::ffff:10.0.0.1", gid);
	cr_assert_str_eq(rd_verbs_gid_text(gid, text), "10.0.0.1");
	inet_pton(AF_INET6, "fe80::1", gid);
	cr_assert_str_eq(rd_verbs_gid_text(gid, text), "fe80::1");
}

/* ---- Ports, in a tree ---------------------------------------------------------------------- */

static struct rd_settings settings;
static struct rd_verbs_ports ports;

static void put_gid(const char *device, int port, int index, const char *gid, const char *type,
	const char *interface)
{
	tree_put(gid, "sys/class/infiniband/%s/ports/%d/gids/%d", device, port, index);
	tree_put(type, "sys/class/infiniband/%s/ports/%d/gid_attrs/types/%d", device, port, index);
	tree_put(interface, "sys/class/infiniband/%s/ports/%d/gid_attrs/ndevs/%d", device, port,
		index);
}

static void put_port(const char *device, int port, const char *state, const char *link_layer)
{
	tree_put(state, "sys/class/infiniband/%s/ports/%d/state", device, port);
	tree_put("100 Gb/sec (4X EDR)", "sys/class/infiniband/%s/ports/%d/rate", device, port);
	tree_put(link_layer, "sys/class/infiniband/%s/ports/%d/link_layer", device, port);
	tree_put("0x0", "sys/class/infiniband/%s/ports/%d/lid", device, port);
}

static void put_roce(const char *device, int port, const char *state)
{
	put_port(device, port, state, "Ethernet");
	put_gid(device, port, 0, "fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1", "eth0");
	put_gid(device, port, 1, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", "eth0");
	tree_put("0000:0000:0000:0000:0000:0000:0000:0000",
		"sys/class/infiniband/%s/ports/%d/gids/2", device, port);
}

/* Two cards: one of two ports, of which the second is down, and one of InfiniBand. */
static void begin_tree(void)
{
	tree_begin();
	memset(&settings, 0, sizeof(settings));
	settings.ib_device = "";
	settings.ib_gid_index = -1;
	tree_put("2", "sys/class/net/eth0/ifindex");
	tree_put("0x1003", "sys/class/net/eth0/flags");
	put_roce("mlx5_0", 1, "4: ACTIVE");
	put_roce("mlx5_0", 2, "1: DOWN");
	put_port("mlx5_1", 1, "4: ACTIVE", "InfiniBand");
	tree_put("0x1a", "sys/class/infiniband/mlx5_1/ports/1/lid");
	tree_put("fe80:0000:0000:0000:0000:0000:0000:0002",
		"sys/class/infiniband/mlx5_1/ports/1/gids/0");
	tree_put("IB/RoCE v1", "sys/class/infiniband/mlx5_1/ports/1/gid_attrs/types/0");
}

TestSuite(verbs_ports, .init = begin_tree, .fini = tree_end);

#define TEXT_SIZE 128

/* Returns the error; the chosen ports are "mlx5_0:1 mlx5_1:1 ". */
static int chosen(char text[TEXT_SIZE], const char *nearest, const char *names)
{
	size_t used = 0;

	settings.ib_device = names;
	int err = rd_verbs_ports_choose(&ports, tree_root, nearest, &settings);

	text[0] = '\0';
	for (int i = 0; i < ports.count && used < TEXT_SIZE; i++)
		used += (size_t)snprintf(text + used, TEXT_SIZE - used, "%s:%d ",
			ports.at[i].device, ports.at[i].number);
	return err;
}

Test(verbs_ports, are_all_active_ones)
{
	char text[TEXT_SIZE];

	cr_assert_eq(chosen(text, "", ""), 0);
	cr_assert_str_eq(text, "mlx5_0:1 mlx5_1:1 ");
	cr_assert(ports.at[0].ethernet && !ports.at[1].ethernet);
	cr_assert_eq(ports.at[0].gid_index, 1);
	cr_assert_eq(ports.at[0].gid.type, RD_VERBS_ROCE_V2);
	cr_assert_eq(ports.at[0].speed_mbps, 100000);
	cr_assert_eq(ports.at[1].gid_index, 0);
	cr_assert_eq(ports.at[1].lid, 0x1a);
}

Test(verbs_ports, are_those_of_the_nearest_device)
{
	char text[TEXT_SIZE];

	cr_assert_eq(chosen(text, "mlx5_1", ""), 0);
	cr_assert_str_eq(text, "mlx5_1:1 ");
	/* The nearest network card may be no RDMA device. */
	cr_assert_eq(chosen(text, "eth0", ""), 0);
	cr_assert_str_eq(text, "mlx5_0:1 mlx5_1:1 ");
}

Test(verbs_ports, are_the_named_ones_in_their_order)
{
	char text[TEXT_SIZE];

	cr_assert_eq(chosen(text, "mlx5_0", "mlx5_1,mlx5_0:1"), 0);
	cr_assert_str_eq(text, "mlx5_1:1 mlx5_0:1 ");
	cr_assert_eq(chosen(text, "", "mlx5_0"), 0);
	cr_assert_str_eq(text, "mlx5_0:1 ");
}

static void refused(const char *names, const char *part)
{
	char text[TEXT_SIZE];

	cr_assert_eq(chosen(text, "", names), RONDO_SETTING, "%s", names);
	cr_assert(strstr(rondo_last_error(), part), "%s: %s", names, rondo_last_error());
}

Test(verbs_ports, that_are_not_there_are_an_error_that_lists_those_there_are)
{
	refused("mlx5_7", "is no RDMA device or port: there are mlx5_0:1, mlx5_0:2 (not active), "
			  "mlx5_1:1");
	refused("mlx5_0:3", "\"mlx5_0:3\", which is no RDMA device or port");
	refused("mlx5_0:", "is no RDMA device or port");
	refused("mlx5_0:x", "is no RDMA device or port");
	refused("mlx5_0:2", "has no active port");
	refused("mlx5_1,mlx5_1", "has no active port left");
}

Test(verbs_ports, take_the_gid_of_the_setting)
{
	char text[TEXT_SIZE];

	settings.ib_gid_index = 0;
	cr_assert_eq(chosen(text, "", "mlx5_0"), 0);
	cr_assert_eq(ports.at[0].gid_index, 0);
	cr_assert_eq(ports.at[0].gid.type, RD_VERBS_ROCE_V1);
	settings.ib_gid_index = 2;
	refused("mlx5_0", "RONDO_IB_GID_INDEX is 2, and mlx5_0 has no such GID");
	settings.ib_gid_index = 3;
	refused("mlx5_0", "RONDO_IB_GID_INDEX is 3, and mlx5_0 has no such GID");
	/* Ports without it are left out where no name is given. */
	settings.ib_gid_index = 1;
	cr_assert_eq(chosen(text, "", ""), 0);
	cr_assert_str_eq(text, "mlx5_0:1 ");
	settings.ib_gid_index = 3;
	cr_assert_eq(chosen(text, "", ""), RONDO_SETTING);
	cr_assert(strstr(rondo_last_error(), "RONDO_IB_GID_INDEX is 3, and no active RDMA port"));
}

Test(verbs_ports, of_an_interface_that_is_down_are_left_out)
{
	char text[TEXT_SIZE];

	tree_put("0x1002", "sys/class/net/eth0/flags");
	cr_assert_eq(chosen(text, "", ""), 0);
	cr_assert_str_eq(text, "mlx5_1:1 ");
	tree_put("1: DOWN", "sys/class/infiniband/mlx5_1/ports/1/state");
	cr_assert_eq(chosen(text, "", ""), RONDO_UNSUPPORTED);
	cr_assert(strstr(rondo_last_error(), "no RDMA port is active"), "%s", rondo_last_error());
}

Test(verbs_ports, need_a_device)
{
	tree_end();
	cr_assert_not(rd_verbs_devices_exist(tree_root));
	cr_assert_eq(rd_verbs_ports_choose(&ports, tree_root, "", &settings), RONDO_UNSUPPORTED);
	cr_assert(strstr(rondo_last_error(), "no RDMA device"), "%s", rondo_last_error());
}

/* ---- Statuses and events in words ------------------------------------------------------------ */

/* Completion statuses and events in words. */

Test(verbs_status, has_a_name_and_a_meaning_each)
{
	struct rd_verbs_status one;

	for (int i = IBV_WC_SUCCESS + 1; i <= IBV_WC_GENERAL_ERR; i++) {
		one = rd_verbs_completion_status((enum ibv_wc_status)i);
		cr_assert(one.name && one.meaning && strlen(one.meaning) > 10, "status %d", i);
		/* With a reason before it, it fits in the reason of a link. */
		cr_assert_lt(strlen(one.name) + strlen(one.meaning), 100, "%s", one.name);
	}
	one = rd_verbs_completion_status(IBV_WC_RETRY_EXC_ERR);
	cr_assert_str_eq(one.name, "IBV_WC_RETRY_EXC_ERR");
	cr_assert(strstr(one.meaning, "no answer"), "%s", one.meaning);
}

Test(verbs_status, that_is_unknown_has_a_meaning_too)
{
	cr_assert_str_eq(
		rd_verbs_completion_status((enum ibv_wc_status)1000).name, "an unknown status");
	cr_assert_str_eq(
		rd_verbs_completion_status((enum ibv_wc_status) - 1).name, "an unknown status");
}

Test(verbs_status, of_an_event_names_what_failed)
{
	cr_assert_str_eq(rd_verbs_event_text(IBV_EVENT_PORT_ERR), "the port is down");
	cr_assert_not_null(rd_verbs_event_text(IBV_EVENT_DEVICE_FATAL));
	cr_assert_not_null(rd_verbs_event_text(IBV_EVENT_QP_FATAL));
	cr_assert_not_null(rd_verbs_event_text(IBV_EVENT_CQ_ERR));
	cr_assert_null(rd_verbs_event_text(IBV_EVENT_PORT_ACTIVE));
}
