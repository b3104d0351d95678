/* What shm promises beyond the contract. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "party.h"

static const struct shape shape = { .size = 2, .channels = 1, .slots = 4, .piece = 4096 };

#define MEETINGS 50000

static void dawdle(uint64_t loops)
{
	for (volatile uint64_t i = 0; i < loops; i++)
		;
}

/*
 * Arms, and looks as if to sleep. A message that comes only after that look must ring. There is no
 * sleep, so that the two meet as often as possible.
 */
static bool doze(struct party *party, struct rd_link *link, uint64_t key)
{
	struct epoll_event event;
	bool rung = true;
	/* Every other time the link is found empty before, and not only after. */
	bool there = key % 2 == 0 && accept_one(party, link, key, 8);

	party->transport->arm(party->endpoint);
	if (!there && !accept_one(party, link, key, 8))
		rung = take(party, link, key, 8) &&
		       epoll_wait(party->local.epoll_fd, &event, 1, 1000) == 1;
	party->transport->disarm(party->endpoint);
	/* A ring for a message that was seen at once may come late, but before the next answer. */
	if (put(party, link, ~key, 8) && take(party, link, ~key, 8))
		epoll_wait(party->local.epoll_fd, &event, 1, 0);
	return ok(party, rung, "message %lu came without a ring", key);
}

static void dozer(struct party *party, struct rd_link **links)
{
	for (uint64_t key = 0; key < MEETINGS; key++) {
		if (!put(party, links[0], key, 8))
			return;
		dawdle(key / 64 % 64);
		if (!doze(party, links[0], key))
			return;
	}
}

static void waker(struct party *party, struct rd_link **links)
{
	for (uint64_t key = 0; key < MEETINGS; key++) {
		if (!take(party, links[0], key, 8))
			return;
		dawdle(key % 64);
		if (!put(party, links[0], key, 8) || !take(party, links[0], ~key, 8) ||
			!put(party, links[0], ~key, 8))
			return;
	}
}

Test(shm, a_message_rings_whoever_has_looked_in_vain, .timeout = 60)
{
	party_pair("shm", &shape, PROCESSES, dozer, waker);
}

/* From here on this process, and what it forks, runs on a kernel without membarrier(2). */
static void forbid_membarrier(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(steps) / sizeof(steps[0]), steps };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		cr_skip_test("no seccomp filters here");
	cr_assert(syscall(SYS_membarrier, 0, 0, 0) < 0);
}

Test(shm, a_message_rings_also_where_there_is_no_membarrier, .timeout = 60)
{
	forbid_membarrier();
	party_pair("shm", &shape, PROCESSES, dozer, waker);
}

/* ---- Memory that a peer has spoilt ---------------------------------------------------------- */

/* As transports/shm.c draws it: up[0] begins with what rank 0 consumed; then flags; then slots. */
#define CONSUMED 0
#define FIRST_SLOT_SIZE (256 + 4)

/* The memory that two ranks in this process share: the first of its mappings will do. */
static unsigned char *shared_memory(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned long start = 0;

	cr_assert(maps);
	while (!start && fgets(line, sizeof(line), maps))
		if (strstr(line, "memfd:rondo") && sscanf(line, "%lx", &start) != 1)
			start = 0;
	fclose(maps);
	return (unsigned char *)start;
}

static void spoil(unsigned char *memory, size_t at, uint32_t value)
{
	memcpy(memory + at, &value, sizeof(value));
}

static void try_spoilt_size(uint32_t size)
{
	struct meeting *meeting = meeting_create();
	struct party parties[2];
	struct rd_message message;

	if (world_open(parties, meeting, "shm", &shape) &&
		put(parties, parties[1].links[0][0], 1, 8)) {
		struct rd_link *link = parties[0].links[1][0];

		spoil(shared_memory(), FIRST_SLOT_SIZE, size);
		ok(parties, !link->ops->recv(link, NULL, 0, &message), "took %u bytes", size);
		ok(parties, link->error == RONDO_PROTOCOL, "%s", link->story);
	}
	world_close(parties);
	meeting_end(meeting);
}

Test(shm, a_size_that_cannot_be_is_an_error)
{
	try_spoilt_size(33); /* beside the header there is room for 32 */
	try_spoilt_size(0x80000000u | (4096 + 1)); /* message_max and one more */
	try_spoilt_size(0xffffffffu);
}

Test(shm, a_count_that_cannot_be_is_an_error)
{
	struct meeting *meeting = meeting_create();
	struct party parties[2];

	if (world_open(parties, meeting, "shm", &shape)) {
		struct rd_link *link = parties[1].links[0][0];
		uint64_t sent = 0;

		spoil(shared_memory(), CONSUMED, 1000);
		while (sent < 1000 && offer(link, sent, 8))
			sent++;
		ok(parties, sent == (uint64_t)shape.slots, "%lu messages in %d slots", sent,
			shape.slots);
		ok(parties, link->error == RONDO_PROTOCOL, "%s", link->story);
	}
	world_close(parties);
	meeting_end(meeting);
}

/* ---- Cards ---------------------------------------------------------------------------------- */

static void try_wrong_byte(struct party *to, size_t at)
{
	struct party from;
	struct rd_link *link;

	if (!party_listen(&from, to->meeting, "shm", 1, &shape))
		return;
	to->card[at] ^= 0x40;
	if (from.transport->open(from.endpoint, 0, 0, to->card, to->card_size, &link) == 0)
		for (int i = 0; i < 20; i++) {
			party_advance(to);
			party_advance(&from);
			ok(to, !link->ready, "a link in spite of byte %zu", at);
		}
	to->card[at] ^= 0x40;
	party_close(&from);
}

Test(shm, a_card_with_one_wrong_byte_makes_no_link, .timeout = 60)
{
	struct meeting *meeting = meeting_create();
	struct party world[2] = { 0 };
	struct party *to = &world[0], *from = &world[1];

	if (party_listen(to, meeting, "shm", 0, &shape) &&
		party_listen(from, meeting, "shm", 1, &shape) &&
		party_open(to, 1, from->card, from->card_size)) {
		for (size_t at = 0; at < to->card_size; at++)
			try_wrong_byte(to, at);
		/* And the right one still does. */
		to->world_count = 2;
		if (party_open(from, 0, to->card, to->card_size))
			party_until_ready(to);
	}
	to->world_count = 2;
	world_close(world);
	meeting_end(meeting);
}
