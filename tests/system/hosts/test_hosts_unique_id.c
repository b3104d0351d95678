/* The address in a unique id, on hosts without a default route. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "text.h"
#include "world.h"

/* Ids are bytes, but their address is text. */
static const char *address_of(struct rondo_unique_id *id)
{
	static const char mark[] = "rondo 1 ";
	char *address = id->bytes + strlen(mark);

	cr_assert_eq(memcmp(id->bytes, mark, strlen(mark)), 0);
	address[strcspn(address, "/")] = '\0';
	return address;
}

static bool is_running(const struct ifaddrs *one, const char *address)
{
	const struct sockaddr_in *at = (const struct sockaddr_in *)one->ifa_addr;

	return at && at->sin_family == AF_INET && one->ifa_flags & IFF_RUNNING &&
	       at->sin_addr.s_addr == inet_addr(address);
}

/* The kernel finds that an interface is running some time after it came up. */
static bool await_running(const char *address)
{
	int64_t deadline = world_now_ms() + 20000;
	bool running = false;

	while (!running && world_now_ms() < deadline) {
		struct ifaddrs *all;

		if (getifaddrs(&all))
			return false;
		for (const struct ifaddrs *one = all; one && !running; one = one->ifa_next)
			running = is_running(one, address);
		freeifaddrs(all);
		sched_yield();
	}
	return running;
}

/* Makes two ids on the host, in a process of its own, once an interface of this address is running.
   Returns the second. */
static struct rondo_unique_id make_ids(const struct hosts *hosts, const char *address)
{
	struct rondo_unique_id id = { { 0 } };
	int ends[2], status;

	cr_assert_eq(pipe(ends), 0);
	pid_t pid = fork();

	if (pid == 0)
		_exit(!hosts_enter(hosts, 0) || !await_running(address) ||
			rondo_get_unique_id(&id) || rondo_get_unique_id(&id) ||
			write(ends[1], &id, sizeof(id)) != sizeof(id));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	cr_assert_eq(read(ends[0], &id, sizeof(id)), sizeof(id));
	close(ends[0]);
	close(ends[1]);
	return id;
}

/* The host loses the address that it has, and gets those of these lines. */
static void expect_address(const char *lines, const char *wanted, int warnings)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 1 });
	struct rondo_unique_id id;
	const char *text;

	cr_assert(hosts_configure(hosts, 0, "addr flush dev eth0\n"));
	if (!hosts_configure(hosts, 0, lines)) {
		cr_skip_test("these interfaces cannot be made here");
	}
	captured_stderr_begin();
	id = make_ids(hosts, wanted);
	text = captured_stderr_end();
	cr_expect_str_eq(address_of(&id), wanted);
	cr_expect_eq(warnings_of(text), warnings, "%s", text);
	cr_expect_eq(count_of(text, "ranks meet at 127.0.0.1, which other hosts do not reach"),
		warnings, "%s", text);
}

/* A cable of which both ends are in the host: one container is plugged in. */
#define DOCKER \
	"link add dev docker0 type bridge\n" \
	"link add dev cable0 type veth peer name cable1\n" \
	"link set dev cable0 master docker0 up\n" \
	"link set dev cable1 up\n" \
	"addr add 172.17.0.1/16 dev docker0\n" \
	"link set dev docker0 up\n"

#define CARD(name, address) \
	"link add link eth0 name " name " type macvlan mode bridge\n" \
	"addr add " address "/24 dev " name "\n" \
	"link set dev " name " up\n"

Test(hosts_unique_id, a_bridge_of_containers_is_no_way_to_other_hosts, .timeout = 60)
{
	expect_address(DOCKER CARD("card0", "10.9.0.1"), "10.9.0.1", 0);
}

Test(hosts_unique_id, a_bridge_with_a_card_is_one, .timeout = 60)
{
	expect_address(DOCKER "link add link eth0 name card0 type macvlan mode passthru\n"
			      "link add dev bridge0 type bridge\n"
			      "link set dev card0 master bridge0 up\n"
			      "addr add 10.9.0.1/24 dev bridge0\n"
			      "link set dev bridge0 up\n",
		"10.9.0.1", 0);
}

Test(hosts_unique_id, an_interface_that_is_down_is_left_out, .timeout = 60)
{
	expect_address(CARD("card0", "10.8.0.1") CARD("card1", "10.9.0.1")
			       CARD("card2", "10.10.0.1") "link set dev card0 down\n",
		"10.9.0.1", 0);
}

Test(hosts_unique_id, one_with_a_gateway_goes_before_others, .timeout = 60)
{
	expect_address(CARD("card0", "10.8.0.1") CARD("card1", "10.9.0.1") CARD("card2",
			       "10.10.0.1") "route add 192.168.0.0/16 via 10.9.0.2 dev card1\n",
		"10.9.0.1", 0);
}

Test(hosts_unique_id, where_the_loopback_is_left_one_line_warns, .timeout = 60)
{
	expect_address(DOCKER, "127.0.0.1", 1);
}

Test(hosts_unique_id, the_loopback_may_be_named, .timeout = 60)
{
	setenv("RONDO_INTERFACE", "lo", 1);
	expect_address(DOCKER, "127.0.0.1", 0);
	setenv("RONDO_INTERFACE", "docker0", 1);
	expect_address(DOCKER, "172.17.0.1", 0);
}
