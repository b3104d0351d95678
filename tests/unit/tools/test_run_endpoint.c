/* rondo-run at endpoints where no other rondo-run answers. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/port.h"
#include "program.h"
#include "run/nodes/endpoint.h"
#include "text.h"

/* A socket at a free port of 127.0.0.1. */
static int bind_free_port(int *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&at, size), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	*port = ntohs(at.sin_port);
	return fd;
}

/* A network of this process alone, of whose ports the kernel gives these. */
static void enter_network_of_ports(int first, int last)
{
	static const char file[] = "/proc/sys/net/ipv4/ip_local_port_range";
	FILE *range;

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		cr_skip_test("no network of its own\n");
	range = fopen(file, "w");
	cr_assert_not_null(range);
	cr_assert_gt(fprintf(range, "%d %d", first, last), 0);
	cr_assert_eq(fclose(range), 0);
}

/* Runs one of two nodes with this endpoint; returns its stderr. The program must not start. */
static char *run_alone(const char *address, int port, const char *conf)
{
	struct program run = program_files();
	char endpoint[64], option[64];

	snprintf(endpoint, sizeof(endpoint), "--rdzv-endpoint=%s:%d", address, port);
	snprintf(option, sizeof(option), "--rdzv-conf=%s", conf);
	program_run(&run, RONDO_TOOL, "--nnodes=2", endpoint, option, "echo", "started", NULL);
	cr_assert_eq(run.status, 1);
	cr_assert_eq(lseek(run.out, 0, SEEK_END), 0);
	return file_text(run.err);
}

Test(run_endpoint, one_that_accepts_and_is_silent_is_named_and_left, .timeout = 60)
{
	int port, fd = bind_free_port(&port);
	char wanted[256], *text;

	cr_assert_eq(listen(fd, 8), 0);
	text = run_alone("127.0.0.1", port, "join_timeout=4");
	snprintf(wanted, sizeof(wanted),
		"rondo-run: waiting for rondo-run at 127.0.0.1:%d, for at most 4 s (no answer)\n"
		"rondo-run: no rondo-run answers at 127.0.0.1:%d within 4 s (no answer)\n",
		port, port);
	cr_assert_str_eq(text, wanted);
	close(fd);
}

/* It is bound, and refuses connections. */
Test(run_endpoint, one_that_another_program_has_is_named_so, .timeout = 60)
{
	int port, fd = bind_free_port(&port);
	char wanted[256], *text;

	text = run_alone("127.0.0.1", port, "join_timeout=1");
	snprintf(wanted, sizeof(wanted),
		"rondo-run: no rondo-run answers at 127.0.0.1:%d within 1 s (another program of this "
		"node has the port: Connection refused)\n",
		port);
	cr_assert_str_eq(text, wanted);
	close(fd);
}

Test(run_endpoint, one_that_speaks_otherwise_is_refused_at_once, .timeout = 60)
{
	int port, fd = bind_free_port(&port);
	char wanted[256], *text;

	cr_assert_eq(listen(fd, 8), 0);
	if (fork() == 0) {
		int peer = accept(fd, NULL, NULL);
		static const char greeting[] = "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n";

		_exit(write(peer, greeting, sizeof(greeting)) < 0);
	}
	text = run_alone("127.0.0.1", port, "join_timeout=60");
	snprintf(wanted, sizeof(wanted),
		"rondo-run: at 127.0.0.1:%d listens something else than this version of "
		"rondo-run\n",
		port);
	cr_assert_str_eq(text, wanted);
	close(fd);
}

/* The kernel drops packets to that network by itself: connect() fails with EINVAL. */
Test(run_endpoint, one_to_which_no_attempt_can_connect_is_left_at_once, .timeout = 60)
{
	char *text;

	enter_network_of_ports(40000, 40001);
	if (system("PATH=$PATH:/usr/sbin:/sbin; ip link set dev lo up && "
		   "ip route add blackhole 192.0.2.0/24"))
		cr_skip_test("no routes can be made here (ip)\n");
	text = run_alone("192.0.2.1", 29400, "join_timeout=600");
	cr_assert_str_eq(text, "rondo-run: cannot connect to 192.0.2.1:29400: Invalid argument\n");
}

Test(run_endpoint, nodes_that_do_not_come_are_counted, .timeout = 60)
{
	int port, fd = bind_free_port(&port);
	char *text;

	close(fd);
	text = run_alone("127.0.0.1", port, "timeout=0.2");
	cr_assert_str_eq(text, "rondo-run: 1 of 2 nodes came within 0.2 s\n");
}

/* Other agents would take such an agent for the host of the meeting, and wait for its answer. One
   for a program is none that the kernel gives to another socket meanwhile. */
Test(run_endpoint, an_agent_takes_no_other_port_that_is_the_endpoints, .timeout = 60)
{
	enter_network_of_ports(40000, 40001);
	for (int port = 40000; port <= 40001; port++) {
		int fd = endpoint_listen_beside(NULL, port);

		cr_assert_eq(rd_port_of(fd), 40000 + 40001 - port);
		close(fd);

		cr_assert_eq(endpoint_reserve(port, &fd), 40000 + 40001 - port);
		close(fd);

		int reserved = endpoint_reserve_for_program(port, &fd);

		cr_assert(reserved > 0 && (reserved < 40000 || reserved > 40001), "%d", reserved);
		close(fd);
	}
}

/* The address refuses attempts, and later takes no notice of one. */
Test(run_endpoint, an_attempt_under_way_hides_no_earlier_refusal, .timeout = 60)
{
	int port, fd = bind_free_port(&port);
	int full = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct program run = program_files();
	char endpoint[64], text[1024] = "", wanted[256];
	int err = pipe_from(&run.err);

	snprintf(endpoint, sizeof(endpoint), "--rdzv-endpoint=127.0.0.1:%d", port);
	program_start(&run, RONDO_TOOL, "--nnodes=2", endpoint, "--rdzv-conf=join_timeout=4",
		"true", NULL);
	read_until(err, text, sizeof(text), "for at most 4 s");
	at.sin_port = htons((uint16_t)port);
	cr_assert_eq(listen(fd, 0), 0);
	cr_assert_eq(connect(full, (struct sockaddr *)&at, sizeof(at)), 0);
	program_finish(&run);
	read_until(err, text, sizeof(text), "within 4 s");
	snprintf(wanted, sizeof(wanted),
		"rondo-run: no rondo-run answers at 127.0.0.1:%d within 4 s (another program of this "
		"node has the port: Connection refused)\n",
		port);
	cr_assert(strstr(text, wanted), "%s", text);
	close(err);
	close(full);
	close(fd);
}
