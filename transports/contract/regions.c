/* Cases: peers map each other's memory, by offer(), withdraw() and map(). */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transports/contract/fixture.h"
#include "transports/contract/leaks.h"
#include "transports/contract/suite.h"
#include "transports/contract/traffic.h"

#define PAGE 4096
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
/* Memory that this rank offers. */
struct region {
	uint64_t id;
	int fd;
	size_t size;
	unsigned char *base;
};

static bool region_open(
	struct fixture *fixture, struct region *region, uint64_t id, size_t size, unsigned seals)
{
	*region = (struct region){ .id = id, .size = size };
	region->fd = memfd_create("rondo-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (!ok(fixture, region->fd >= 0 && ftruncate(region->fd, (off_t)size) == 0, "memfd: %m"))
		return false;
	region->base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0);
	if (!ok(fixture, region->base != MAP_FAILED, "mmap: %m"))
		return false;
	fill_bytes(region->base, size, id);
	return ok(fixture, fcntl(region->fd, F_ADD_SEALS, seals) == 0, "F_ADD_SEALS: %m");
}

static void region_close(struct region *region)
{
	munmap(region->base, region->size);
	close(region->fd);
}

static bool announce(struct fixture *fixture, const struct region *region)
{
	return ok(fixture,
		fixture->transport->offer(fixture->endpoint, region->id, region->fd, region->size),
		"cannot offer region %lu", region->id);
}

static bool region_offer(struct fixture *fixture, struct region *region, uint64_t id, size_t size)
{
	return region_open(fixture, region, id, size, SEALS) && announce(fixture, region);
}

static void *map(struct rd_link *link, uint64_t id, size_t *size)
{
	return link->transport->map(link, id, size);
}

static bool holds(struct fixture *fixture, const unsigned char *bytes, size_t size, uint64_t key)
{
	unsigned char *expected = malloc(size);

	fill_bytes(expected, size, key);
	bool same = memcmp(bytes, expected, size) == 0;

	free(expected);
	return ok(fixture, same, "a region does not hold what was written as %lu", key);
}

/* Maps the peer's region, and checks its size and the bytes that its owner wrote. */
static unsigned char *map_valid(
	struct fixture *fixture, struct rd_link *link, uint64_t id, size_t expected_size)
{
	size_t size = 0;
	unsigned char *base = map(link, id, &size);

	if (!ok(fixture, base != NULL, "region %lu cannot be mapped", id) ||
		!ok(fixture, size == expected_size, "region %lu has %zu bytes", id, size) ||
		!holds(fixture, base, size, id))
		return NULL;
	return base;
}

static void expect_unknown(struct fixture *fixture, struct rd_link *link, uint64_t id)
{
	size_t size;

	ok(fixture, map(link, id, &size) == NULL, "region %lu is known", id);
}

/* ---- Between two ---------------------------------------------------------------------------- */

#define PAGES (5 * PAGE)
#define ANSWER 77

static void offer_and_read(struct fixture *fixture, struct rd_link **links)
{
	struct region region;

	if (region_offer(fixture, &region, 41, PAGES) && send_message(fixture, links[0], 0, 8) &&
		announce(fixture, &region) && send_message(fixture, links[0], 1, 8) &&
		recv_message(fixture, links[0], 2, 8))
		holds(fixture, region.base, region.size, ANSWER);
	region_close(&region);
}

static void map_and_write(struct fixture *fixture, struct rd_link **links)
{
	unsigned char *base;
	size_t size;

	if (!recv_message(fixture, links[0], 0, 8))
		return;
	base = map_valid(fixture, links[0], 41, PAGES);
	if (!base)
		return;
	ok(fixture, map(links[0], 41, &size) == base, "another address the second time");
	if (!recv_message(fixture, links[0], 1, 8))
		return;
	/* All offers have been taken then. */
	expect_unknown(fixture, links[0], 42);
	ok(fixture, map(links[0], 41, &size) == base, "another address after a second offer");
	fill_bytes(base, PAGES, ANSWER);
	send_message(fixture, links[0], 2, 8);
}

void contract_a_region_is_mapped_after_a_message_in_threads(const char *transport)
{
	fixture_pair(transport, &shape_small, THREADS, offer_and_read, map_and_write);
	fixture_pair(transport, &shape_small, THREADS, map_and_write, offer_and_read);
}

void contract_a_region_is_mapped_after_a_message_in_processes(const char *transport)
{
	fixture_pair(transport, &shape_small, PROCESSES, offer_and_read, map_and_write);
	fixture_pair(transport, &shape_small, PROCESSES, map_and_write, offer_and_read);
}

static void map_and_kill(struct fixture *fixture, struct rd_link **links)
{
	unsigned char *base;
	siginfo_t death;

	if (!recv_message(fixture, links[0], 0, 8))
		return;
	base = map_valid(fixture, links[0], 41, PAGES);
	kill(fixture->shared->child, SIGKILL);
	waitid(P_PID, (id_t)fixture->shared->child, &death, WEXITED | WNOWAIT);
	if (!base || !holds(fixture, base, PAGES, 41) ||
		!until_broken(fixture, links[0], fixture_wait_ms))
		return;
	/* The mapping stays usable. */
	fill_bytes(base, PAGES, ANSWER);
	holds(fixture, base, PAGES, ANSWER);
	expect_unknown(fixture, links[0], 42);
}

static void offer_and_wait(struct fixture *fixture, struct rd_link **links)
{
	struct region region;

	if (region_offer(fixture, &region, 41, PAGES) && send_message(fixture, links[0], 0, 8))
		recv_message(fixture, links[0], 1, 8);
	region_close(&region);
}

void contract_a_killed_peers_region_stays_where_it_is_mapped(const char *transport)
{
	fixture_pair(transport, &shape_small, PROCESSES, map_and_kill, offer_and_wait);
}

/* Number of regions; a message follows the first of each ten, and the last. */
#define MANY 150

static size_t many_size(int i)
{
	return (size_t)(1 + i % 3) * PAGE;
}

static bool offer_many(struct fixture *fixture, struct rd_link **links, struct region *regions)
{
	for (int i = 0; i < MANY; i++) {
		bool with_message = i % 10 == 0 || i == MANY - 1;

		if (!region_offer(fixture, &regions[i], 1000 + (uint64_t)i, many_size(i)) ||
			(with_message && !send_message(fixture, links[0], (uint64_t)i, 8)))
			return false;
		if (with_message && !recv_message(fixture, links[0], ~(uint64_t)i, 8))
			return false;
	}
	return true;
}

static void offer_many_and_withdraw_some(struct fixture *fixture, struct rd_link **links)
{
	struct region regions[MANY] = { 0 };

	for (int i = 0; i < MANY; i++)
		regions[i] = (struct region){ .fd = -1 };
	if (offer_many(fixture, links, regions)) {
		for (int i = 0; i < MANY; i += 2)
			fixture->transport->withdraw(fixture->endpoint, regions[i].id);
		if (send_message(fixture, links[0], MANY, 8))
			recv_message(fixture, links[0], MANY, 8);
	}
	for (int i = 0; i < MANY; i++)
		if (regions[i].fd >= 0)
			region_close(&regions[i]);
}

static bool until_unknown(struct fixture *fixture, struct rd_link *link, uint64_t id)
{
	uint64_t deadline = now_ms() + fixture_wait_ms;
	size_t size;

	while (map(link, id, &size))
		if (!fixture_wait(fixture, deadline, "a region to be let go of"))
			return false;
	return true;
}

static void map_many(struct fixture *fixture, struct rd_link **links)
{
	for (int i = 0; i < MANY; i++) {
		if (i % 10 != 0 && i != MANY - 1)
			continue;
		if (!recv_message(fixture, links[0], (uint64_t)i, 8))
			return;
		for (int k = i < 10 ? 0 : i - 9; k <= i; k++)
			if (!map_valid(fixture, links[0], 1000 + (uint64_t)k, many_size(k)))
				return;
		if (!send_message(fixture, links[0], ~(uint64_t)i, 8))
			return;
	}
	if (!recv_message(fixture, links[0], MANY, 8))
		return;
	for (int i = 0; i < MANY; i++) {
		uint64_t id = 1000 + (uint64_t)i;

		if (i % 2 == 0 ? !until_unknown(fixture, links[0], id)
			       : !map_valid(fixture, links[0], id, many_size(i)))
			return;
	}
	send_message(fixture, links[0], MANY, 8);
}

void contract_many_regions_come_and_go(const char *transport)
{
	fixture_pair(transport, &shape_small, THREADS, offer_many_and_withdraw_some, map_many);
	fixture_pair(transport, &shape_small, PROCESSES, map_many, offer_many_and_withdraw_some);
}

/* ---- Between several in one thread ----------------------------------------------------------- */

static bool three_open(struct fixture *fixtures, struct shared *shared, const char *transport)
{
	struct shape shape = shape_small;

	shape.size = 3;
	return fixtures_open(fixtures, shared, transport, &shape);
}

void contract_a_region_is_offered_to_every_peer_and_belongs_to_one(const char *transport)
{
	struct shared *shared = shared_create();
	struct fixture fixtures[3];
	struct region region;

	if (three_open(fixtures, shared, transport) &&
		region_offer(fixtures, &region, 7, 2 * PAGE)) {
		for (int peer = 1; peer < 3; peer++) {
			struct rd_link *link = fixtures[peer].links[0][0];

			if (send_message(fixtures, fixtures[0].links[peer][0], 0, 8) &&
				recv_message(fixtures, link, 0, 8))
				map_valid(fixtures, link, 7, 2 * PAGE);
			expect_unknown(fixtures, fixtures[peer].links[3 - peer][0], 7);
		}
		expect_unknown(fixtures, fixtures[0].links[1][0], 7);
		region_close(&region);
	}
	fixtures_close(fixtures);
	shared_end(shared);
}

/* Offers an invalid region: the peer must not map it, and the link must still work. */
static void try_invalid(struct fixture *fixtures, uint64_t id, int fd, size_t size)
{
	struct rd_link *to = fixtures[1].links[0][0];

	fixtures[0].transport->offer(fixtures[0].endpoint, id, fd, size);
	if (send_message(fixtures, fixtures[0].links[1][0], id, 8) &&
		recv_message(fixtures, to, id, 8))
		expect_unknown(fixtures, to, id);
}

static void try_invalid_memfds(struct fixture *fixtures)
{
	static const struct {
		unsigned seals;
		size_t size, offered;
	} tries[] = {
		{ 0, PAGE, PAGE },
		{ F_SEAL_GROW, PAGE, PAGE },
		{ SEALS, PAGE, 2 * PAGE },
		{ SEALS, 2 * PAGE, PAGE },
		{ SEALS, PAGE, 0 },
		{ SEALS, PAGE, SIZE_MAX },
		{ SEALS, PAGE, (size_t)1 << 62 },
	};

	for (size_t i = 0; i < LENGTH(tries) && !failed(fixtures); i++) {
		struct region region;

		if (region_open(fixtures, &region, i + 1, tries[i].size, tries[i].seals))
			try_invalid(fixtures, i + 1, region.fd, tries[i].offered);
		region_close(&region);
	}
}

void contract_what_is_no_sound_region_is_not_mapped(const char *transport)
{
	struct shared *shared = shared_create();
	struct fixture fixtures[2];
	struct region region;
	int pipes[2];

	if (fixtures_open(fixtures, shared, transport, &shape_small) &&
		ok(fixtures, pipe2(pipes, O_CLOEXEC) == 0, "pipe2: %m")) {
		try_invalid_memfds(fixtures);
		try_invalid(fixtures, 100, pipes[0], PAGE);
		close(pipes[0]);
		close(pipes[1]);
		/* A valid region is still mapped after that. */
		if (region_offer(fixtures, &region, 101, PAGE) &&
			send_message(fixtures, fixtures[0].links[1][0], 101, 8) &&
			recv_message(fixtures, fixtures[1].links[0][0], 101, 8))
			map_valid(fixtures, fixtures[1].links[0][0], 101, PAGE);
		region_close(&region);
	}
	fixtures_close(fixtures);
	shared_end(shared);
}

/* Leaves regions in all states: mapped or not, withdrawn or not. */
static void leave_regions(const char *transport)
{
	struct shared *shared = shared_create();
	struct fixture fixtures[2];
	struct region regions[8];

	if (!fixtures_open(fixtures, shared, transport, &shape_small)) {
		fixtures_close(fixtures);
		shared_end(shared);
		return;
	}
	for (size_t i = 0; i < LENGTH(regions); i++) {
		region_offer(fixtures, &regions[i], i + 1, PAGE);
		if (i % 4 == 3)
			fixture_advance(fixtures);
	}
	if (send_message(fixtures, fixtures[0].links[1][0], 0, 8) &&
		recv_message(fixtures, fixtures[1].links[0][0], 0, 8))
		for (size_t i = 0; i < LENGTH(regions); i += 2)
			map_valid(fixtures, fixtures[1].links[0][0], i + 1, PAGE);
	for (size_t i = 0; i < LENGTH(regions); i += 3)
		fixtures->transport->withdraw(fixtures->endpoint, i + 1);
	for (size_t i = 0; i < LENGTH(regions); i++)
		region_close(&regions[i]);
	fixtures_close(fixtures);
	shared_end(shared);
}

void contract_no_region_is_left_behind(const char *transport)
{
	int files = 0, maps = 0;

	for (int round = 0; round < 4; round++) {
		/* After the first round, in which the library allocates what it keeps. */
		if (round == 1) {
			files = contract_open_files();
			maps = contract_shared_maps();
		}
		leave_regions(transport);
	}
	require(contract_open_files() == files, "files stay open");
	require(contract_shared_maps() == maps, "memory stays mapped");
}
