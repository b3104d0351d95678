/* Cases: messages from and into registered memory, by attach() and detach(). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transports/contract/fixture.h"
#include "transports/contract/leaks.h"
#include "transports/contract/suite.h"
#include "transports/contract/traffic.h"

#define ROOM (32 << 10) /* of a message */
#define PLACES 4 /* messages under way, each in a place of its own */
#define STRIDE (ROOM + 4096)
#define MEMORY (PLACES * STRIDE)
#define GUARD 0xcc
#define HALTED_MS 500 /* in which a message arrives, if it can */

static const struct shape shape_large = { 2, 1, 3, ROOM, 0, false, NULL };

static unsigned char *map_at(struct fixture *fixture, void *address)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (address ? MAP_FIXED : 0);
	unsigned char *memory = mmap(address, MEMORY, PROT_READ | PROT_WRITE, flags, -1, 0);

	return ok(fixture, memory != MAP_FAILED, "mmap: %m") ? memory : NULL;
}

static void unmap(unsigned char *memory)
{
	if (memory)
		munmap(memory, MEMORY);
}

static bool attach(struct fixture *fixture, uint64_t id, unsigned char *base, size_t size)
{
	struct rd_registration registration = { id, base, size, -1, 0 };

	return ok(fixture, fixture->transport->attach(fixture->endpoint, &registration) == 0,
		"cannot attach %zu bytes: %s", size, rondo_last_error());
}

static void detach(struct fixture *fixture, uint64_t id)
{
	fixture->transport->detach(fixture->endpoint, id);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Begins to send message `key` from this place. False: no room now, or the link failed. */
static bool try_post(struct rd_link *link, unsigned char *from, uint64_t key, size_t size)
{
	struct rd_tag tag = tag_of(key);

	fill_bytes(from, size, key);
	return link->ops->send ? link->ops->send(link, &tag, from, size)
			       : try_send(link, key, size);
}

static bool post(struct fixture *fixture, struct rd_link *link, unsigned char *from, uint64_t key,
	size_t size)
{
	uint64_t deadline = now_ms() + fixture_wait_ms;

	while (!try_post(link, from, key, size))
		if (!ok(fixture, !link->error, "the link failed: %s", link->reason) ||
			!fixture_wait(fixture, deadline, "room for a message"))
			return false;
	return true;
}

/* Waits until at most `most` messages still need their memory. */
static bool until_sent(struct fixture *fixture, struct rd_link *link, uint64_t most)
{
	uint64_t deadline = now_ms() + fixture_wait_ms;

	while (link->posted - link->sent > most)
		if (!ok(fixture, !link->error, "the link failed: %s", link->reason) ||
			!fixture_wait(fixture, deadline, "sent memory to come back"))
			return false;
	return true;
}

/* Receives message `key` into this place, whose next bytes on both sides must not change. */
static bool land(struct fixture *fixture, struct rd_link *link, unsigned char *into, uint64_t key,
	size_t size)
{
	struct rd_message message;

	memset(into - 1, GUARD, size + 2);
	if (!await_message(fixture, link, into, size, &message) ||
		!verify_message(fixture, &message, key, size))
		return false;
	link->ops->release(link);
	return ok(fixture, into[-1] == GUARD && into[size] == GUARD,
		"message %lu: bytes beside it changed", key);
}

/* Both ranks may be threads of one process, which has no two regions with one id. */
static uint64_t id_of(const struct fixture *fixture)
{
	return 1 + (uint64_t)fixture->local.rank;
}

/* Registers all but half a stride at each end: messages in the first and the last place lie in
   the region wholly, in part, or not at all. */
static bool attach_most(struct fixture *fixture, unsigned char *memory)
{
	return attach(fixture, id_of(fixture), memory + STRIDE / 2 + 3, MEMORY - STRIDE - 3);
}

static unsigned char *place_of(unsigned char *memory, uint64_t key, size_t size)
{
	return memory + key % PLACES * STRIDE + 1 + key * 37 % (STRIDE - 2 - size);
}

static void send_from_registered(struct fixture *fixture, struct rd_link **links)
{
	size_t most = fixture_fit(fixture, ROOM);
	unsigned char *memory = map_at(fixture, NULL);

	if (memory && attach_most(fixture, memory)) {
		for (uint64_t key = 0; key < 300 && !failed(fixture); key++) {
			size_t size = size_of(key, most);

			if (until_sent(fixture, links[0], PLACES - 1))
				post(fixture, links[0], place_of(memory, key, size), key, size);
		}
		until_sent(fixture, links[0], 0);
		detach(fixture, id_of(fixture));
	}
	unmap(memory);
	recv_message(fixture, links[0], 0, 8);
}

static void recv_into_registered(struct fixture *fixture, struct rd_link **links)
{
	size_t most = fixture_fit(fixture, ROOM);
	unsigned char *memory = map_at(fixture, NULL);

	if (memory && attach_most(fixture, memory)) {
		for (uint64_t key = 0; key < 300 && !failed(fixture); key++) {
			size_t size = size_of(key, most);

			land(fixture, links[0], place_of(memory, 3 * key, size), key, size);
		}
		detach(fixture, id_of(fixture));
	}
	unmap(memory);
	send_message(fixture, links[0], 0, 8);
}

void contract_messages_leave_and_arrive_in_registered_memory(const char *transport)
{
	fixture_pair(transport, &shape_large, THREADS, send_from_registered, recv_into_registered);
	fixture_pair(
		transport, &shape_large, PROCESSES, recv_into_registered, send_from_registered);
}

/* ---- Memory that comes and goes -------------------------------------------------------------- */

/* Sends a message from one place, and has it land in another. */
static bool pass(struct ends *ends, unsigned char *from, unsigned char *into, uint64_t key)
{
	size_t size = size_of(key, ends->most);

	return post(ends->fixture, ends->from, from, key, size) &&
	       land(ends->fixture, ends->to, into, key, size) &&
	       until_sent(ends->fixture, ends->from, 0);
}

/* In each round there are new pages at the same addresses; in every third they are not
   registered. */
static void pass_at_same_addresses(struct ends *ends)
{
	struct fixture *sender = &ends->fixtures[0],
		       *receiver = ends->from == ends->to ? sender : &ends->fixtures[1];
	unsigned char *from = map_at(sender, NULL), *into = map_at(receiver, NULL);

	for (uint64_t round = 1; from && into && round < 60 && !failed(sender); round++) {
		bool registers = round % 3 != 0;

		if (registers && (!attach(sender, 2 * round, from, MEMORY) ||
					 !attach(receiver, 2 * round + 1, into, MEMORY)))
			break;
		for (uint64_t i = 0; i < 4; i++)
			pass(ends, from + STRIDE * i + 5, into + STRIDE * i + 9, 4 * round + i);
		if (registers) {
			detach(sender, 2 * round);
			detach(receiver, 2 * round + 1);
		}
		map_at(sender, from);
		map_at(receiver, into);
	}
	unmap(from);
	unmap(into);
}

void contract_new_memory_at_the_address_of_old_is_used(const char *transport)
{
	struct ends ends;

	if (ends_open(&ends, transport, shape_large))
		pass_at_same_addresses(&ends);
	ends_close(&ends);
}

/* A message that arrives after recv() has named a place for it, and the endpoint has halted. */
static void send_to_halted(struct ends *ends, unsigned char *from, unsigned char *into)
{
	struct fixture *receiver = &ends->fixtures[1];
	struct rd_message message;
	uint64_t deadline;

	ok(receiver, !ends->to->ops->recv(ends->to, into, ends->most, &message),
		"a message that was not sent has arrived");
	/* The peer has heard of the place before this message. */
	if (!send_message(receiver, ends->to, 1, 8) ||
		!recv_message(ends->fixture, ends->from, 1, 8))
		return;
	ends->to->error = RONDO_REVOKED;
	if (receiver->transport->halt)
		receiver->transport->halt(receiver->endpoint);
	memset(into, GUARD, ends->most);
	post(ends->fixture, ends->from, from, 2, ends->most);
	deadline = now_ms() + HALTED_MS;
	while (now_ms() < deadline && !ends->from->error)
		ends->fixtures[0].transport->advance(ends->fixtures[0].endpoint);
	for (size_t i = 0; i < ends->most; i++)
		if (!ok(receiver, into[i] == GUARD, "byte %zu of a halted receiver has changed", i))
			break;
	/* No message is left to wait for. */
	ends->from->error = RONDO_REVOKED;
}

void contract_a_halted_endpoint_leaves_its_callers_memory(const char *transport)
{
	struct ends ends;
	unsigned char *from = NULL, *into = NULL;

	if (ends_open(&ends, transport, shape_large) && ends.from != ends.to) {
		from = map_at(&ends.fixtures[0], NULL);
		into = map_at(&ends.fixtures[1], NULL);
		if (from && into && attach(&ends.fixtures[0], 1, from, MEMORY) &&
			attach(&ends.fixtures[1], 2, into, MEMORY))
			send_to_halted(&ends, from, into);
	}
	ends_close(&ends);
	unmap(from);
	unmap(into);
}

struct registrar {
	struct fixture *fixture;
	_Atomic bool ends;
	bool attached; /* always */
};

/* Attaches and detaches memory that no message uses. */
static void *attach_and_detach(void *argument)
{
	struct registrar *registrar = argument;
	struct fixture *fixture = registrar->fixture;
	unsigned char *memory = malloc(MEMORY);
	struct rd_registration registration = { 0, memory, MEMORY, -1, 0 };

	registrar->attached = true;
	for (uint64_t id = 100; registrar->attached && !atomic_load(&registrar->ends); id++) {
		registration.id = id;
		registrar->attached =
			fixture->transport->attach(fixture->endpoint, &registration) == 0;
		if (registrar->attached)
			detach(fixture, id);
	}
	free(memory);
	return NULL;
}

void contract_another_thread_registers_while_messages_go(const char *transport)
{
	struct ends ends;
	unsigned char *memory = NULL;
	bool valid = ends_open(&ends, transport, shape_large);
	struct registrar registrar = { .fixture = ends.fixture };
	pthread_t thread;

	if (valid)
		memory = map_at(ends.fixture, NULL);
	if (memory && attach(ends.fixture, 1, memory, MEMORY) &&
		ok(ends.fixture, pthread_create(&thread, NULL, attach_and_detach, &registrar) == 0,
			"pthread_create")) {
		for (uint64_t key = 0; key < 2000 && !failed(ends.fixture); key++)
			pass(&ends, memory + key % 3 * STRIDE + 1, memory + 3 * STRIDE + 1, key);
		atomic_store(&registrar.ends, true);
		pthread_join(thread, NULL);
		ok(ends.fixture, registrar.attached, "the other thread could not attach");
	}
	ends_close(&ends);
	unmap(memory);
}

/* ---- Refusals, and leaks --------------------------------------------------------------------- */

/* Attaches memory that is none: a transport may find that out at once, or later. */
static void attach_invalid(struct fixture *fixture, unsigned char *base, int dmabuf)
{
	struct rd_registration registration = { 7, base, MEMORY, dmabuf, 0 };
	int err = fixture->transport->attach(fixture->endpoint, &registration);

	if (dmabuf >= 0)
		ok(fixture, err < 0, "a pipe was taken for a dma-buf");
	if (err == 0)
		detach(fixture, 7);
}

void contract_a_refused_registration_does_no_harm(const char *transport)
{
	struct ends ends;
	unsigned char *memory = NULL, *none = MAP_FAILED;
	int pipes[2] = { -1, -1 };

	if (ends_open(&ends, transport, shape_large) && (memory = map_at(ends.fixture, NULL)) &&
		ok(ends.fixture, pipe(pipes) == 0, "pipe: %m")) {
		none = mmap(NULL, MEMORY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		attach_invalid(ends.fixture, none, -1);
		attach_invalid(ends.fixture, memory, pipes[0]);
		for (uint64_t key = 0; key < 8; key++)
			pass(&ends, memory + 1, memory + STRIDE + 1, key);
	}
	if (none != MAP_FAILED)
		munmap(none, MEMORY);
	close(pipes[0]);
	close(pipes[1]);
	ends_close(&ends);
	unmap(memory);
}

/* The memory of this process that is pinned for RDMA, in KiB. */
static long pinned_kib(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];
	long pinned = 0;

	while (status && fgets(line, sizeof(line), status))
		sscanf(line, "VmPin: %ld", &pinned);
	if (status)
		fclose(status);
	return pinned;
}

/* Closes with registrations of all sorts: used or not, and detached or not. */
static void leave_registrations(const char *transport)
{
	struct ends ends;
	unsigned char *memory = NULL;
	long pinned;

	if (ends_open(&ends, transport, shape_large) && (memory = map_at(ends.fixture, NULL))) {
		for (uint64_t id = 1; id <= PLACES; id++)
			attach(ends.fixture, id, memory + (id - 1) * STRIDE, STRIDE);
		pass(&ends, memory + 1, memory + STRIDE + 1, 0);
		detach(ends.fixture, 1);
		detach(ends.fixture, 3);
		pinned = pinned_kib();
		attach(ends.fixture, 5, memory, STRIDE);
		pass(&ends, memory + 1, memory + STRIDE + 1, 1);
		detach(ends.fixture, 5);
		ok(ends.fixture, pinned_kib() <= pinned, "detached memory stays pinned");
	}
	ends_close(&ends);
	unmap(memory);
}

void contract_no_registration_is_left_behind(const char *transport)
{
	int files = 0, maps = 0;
	long pinned = 0;

	for (int round = 0; round < 4; round++) {
		/* After the first round, in which the library allocates what it keeps. */
		if (round == 1) {
			files = contract_open_files();
			maps = contract_shared_maps();
			pinned = pinned_kib();
		}
		leave_registrations(transport);
	}
	require(contract_open_files() == files, "files stay open");
	require(contract_shared_maps() == maps, "memory stays mapped");
	require(pinned_kib() == pinned, "memory stays pinned");
}
