/* ctest label: threads */
/* A rank sends a tagged message and leaves, before the receiver's end of the link is ready. */
#include <criterion/criterion.h>
#include <stdatomic.h>

#include "comm/mailbox.h"
#include "routes.h"
#include "world.h"

#define WAIT_MS 20000
#define CALLS 3

/* Shm, where rank 1's greeting makes rank 0's end of a link ready, and the answer rank 1's. */
static struct rd_transport late;
static struct rd_endpoint *_Atomic tagged[2]; /* of both ranks, for tagged messages */
static struct rd_mailbox *_Atomic mailbox; /* of rank 1, which receives */
/* Its greeting is on its way. Then nothing moves there until it has learnt that rank 0 has left. */
static _Atomic bool greeted;
static _Atomic int before, after; /* calls of advance() for it, until then and from then on */
static int source;

static int listen_late(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char *card, size_t *card_size)
{
	static int listens[2];
	int err = routes_listen(&late, result, local, card, card_size);

	if (!err && listens[local->rank]++ == 1)
		tagged[local->rank] = *result;
	return err;
}

/* With the lock of the mailbox. */
static bool advance_receiver(struct rd_endpoint *endpoint)
{
	const struct rd_mailbox_peer *peer = &atomic_load(&mailbox)->peers[0];
	bool moved;

	after += peer->left_ms != 0;
	if (atomic_load(&greeted) && after <= CALLS)
		return false;
	moved = rd_transport_shm.advance(endpoint);
	if (peer->link && ++before == CALLS)
		atomic_store(&greeted, true);
	return moved;
}

static bool advance_late(struct rd_endpoint *endpoint)
{
	if (endpoint == tagged[0] && !atomic_load(&greeted))
		return false;
	if (endpoint == tagged[1] && atomic_load(&mailbox))
		return advance_receiver(endpoint);
	return rd_transport_shm.advance(endpoint);
}

static int send_and_leave(struct rank_env *env)
{
	rondo_request *request;
	int value = env->rank == 0 ? 8 : 0;

	if (env->create_error || world_sum_one(env))
		return 1;
	TRY(env->rank == 0
			? rondo_send_tagged(env->comm, &value, sizeof(value), 1, 5, &request)
			: rondo_recv_tagged(env->comm, &value, sizeof(value), source, 5, &request));
	if (env->rank == 1)
		atomic_store(&mailbox, atomic_load(&env->comm->mailbox));
	TRY(rondo_request_start(request, NULL, NULL));
	TRY(rondo_request_wait(request, WAIT_MS));
	rondo_request_destroy(request);
	if (value != 8 || (env->rank == 1 && after <= CALLS))
		return world_report(env, "%d after %d calls", value, after);
	return 0;
}

static void expect_message(int from)
{
	struct world world = { .size = 2, .transport = "late", .threads = true };

	source = from;
	late = rd_transport_shm;
	late.name = "late";
	late.reach = routes_reach;
	late.listen = listen_late;
	late.open = routes_open;
	late.advance = advance_late;
	cr_assert_eq(rd_transport_add(&late), 0);
	cr_assert_eq(world_run(&world, send_and_leave, NULL, NULL), 0);
}

Test(tagged_late_link, brings_a_message_of_a_rank_that_has_left, .timeout = 60)
{
	expect_message(0);
}

Test(tagged_late_link, brings_a_message_from_any_source, .timeout = 60)
{
	expect_message(RONDO_ANY_SOURCE);
}
