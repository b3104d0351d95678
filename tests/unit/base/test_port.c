#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

#include "base/port.h"
#include "file_tree.h"

#define DRAWS 2000

static void put_range(const char *range)
{
	tree_put(range, "proc/sys/net/ipv4/ip_local_port_range");
}

TestSuite(port, .init = tree_begin, .fini = tree_end);

Test(port, a_drawn_one_is_outside_of_the_kernel_s_range)
{
	bool below = false, above = false;

	put_range("20000\t50000");
	for (int i = 0; i < DRAWS; i++) {
		int port = rd_port_draw(tree_root);

		cr_assert(port >= 1024 && port <= 65535 && (port < 20000 || port > 50000), "%d",
			port);
		below |= port < 20000;
		above |= port > 50000;
	}
	/* Each alone has more than a third of the ports. */
	cr_assert(below && above);
	put_range("1024\t65534");
	cr_assert_eq(rd_port_draw(tree_root), 65535);
}

Test(port, none_is_drawn_where_the_kernel_gives_all)
{
	put_range("1024\t65535");
	cr_assert_eq(rd_port_draw(tree_root), 0);
	put_range("no number");
	cr_assert_eq(rd_port_draw(tree_root), 0);
}

Test(port, one_for_a_program_is_free_and_outside_of_the_range)
{
	int first, last, meeting, fd = rd_listen_on_loopback(&meeting), port;
	FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");

	if (!file || fscanf(file, "%d %d", &first, &last) != 2 || first <= 1024)
		cr_skip_test("the kernel gives all ports");
	fclose(file);
	cr_assert_geq(fd, 0, "%m");
	port = rd_port_beside(fd);
	cr_assert(port > 0 && (port < first || port > last), "%d", port);
	cr_assert_neq(port, meeting);
	close(fd);
}
