/* Cases: traffic between ranks, in threads, in processes, over many links and channels. */
#include <stdlib.h>

#include "transports/contract/fixture.h"
#include "transports/contract/suite.h"
#include "transports/contract/traffic.h"

#define BOTH_WAYS 3000

static void send_and_take(struct fixture *fixture, struct rd_link **links)
{
	uint64_t mine = (uint64_t)fixture->local.rank << 32, theirs = mine ^ (1ull << 32);
	uint64_t sent = 0, taken = 0, deadline = now_ms() + fixture_wait_ms;
	size_t most = fixture_fit(fixture, shape_small.piece);

	while (sent < BOTH_WAYS || taken < BOTH_WAYS) {
		uint64_t before = sent + taken;

		if (sent < BOTH_WAYS && try_send(links[0], mine + sent, size_of(mine + sent, most)))
			sent++;
		if (taken < BOTH_WAYS &&
			try_recv(fixture, links[0], theirs + taken, size_of(theirs + taken, most)))
			taken++;
		if (sent + taken == before &&
			(!ok(fixture, !links[0]->error, "%s", links[0]->reason) ||
				!fixture_wait(fixture, deadline, "traffic")))
			return;
	}
}

void contract_threads_send_both_ways_at_once(const char *transport)
{
	fixture_pair(transport, &shape_small, THREADS, send_and_take, send_and_take);
}

void contract_processes_send_both_ways_at_once(const char *transport)
{
	fixture_pair(transport, &shape_small, PROCESSES, send_and_take, send_and_take);
}

struct mesh {
	struct shared *shared;
	struct fixture fixtures[FIXTURE_RANKS_MAX];
	uint64_t sent[FIXTURE_RANKS_MAX][FIXTURE_RANKS_MAX][FIXTURE_CHANNELS_MAX];
	uint64_t taken[FIXTURE_RANKS_MAX][FIXTURE_RANKS_MAX][FIXTURE_CHANNELS_MAX];
};

static uint64_t mesh_key(int from, int to, int channel, uint64_t number)
{
	return (((uint64_t)from * FIXTURE_RANKS_MAX + (uint64_t)to) * FIXTURE_CHANNELS_MAX +
		       (uint64_t)channel) *
		       1000000 +
	       number;
}

/* Sends one message and takes one, if possible. True: all `count` were sent and taken. */
static bool mesh_step(struct mesh *mesh, int rank, int peer, int channel, uint64_t count)
{
	struct fixture *fixture = &mesh->fixtures[rank];
	struct rd_link *link = fixture->links[peer][channel];
	uint64_t *sent = &mesh->sent[rank][peer][channel];
	uint64_t *taken = &mesh->taken[rank][peer][channel];
	uint64_t out = mesh_key(rank, peer, channel, *sent);
	uint64_t in = mesh_key(peer, rank, channel, *taken);
	size_t most = fixture_fit(fixture, 4096);

	if (*sent < count && try_send(link, out, size_of(out, most)))
		(*sent)++;
	if (*taken < count && try_recv(fixture, link, in, size_of(in, most)))
		(*taken)++;
	return *sent == count && *taken == count;
}

static bool mesh_round(struct mesh *mesh, const struct shape *shape, uint64_t count)
{
	bool done = true;

	for (int rank = 0; rank < shape->size; rank++)
		for (int peer = 0; peer < shape->size; peer++)
			for (int channel = 0; channel < shape->channels; channel++)
				if (peer != rank && !mesh_step(mesh, rank, peer, channel, count))
					done = false;
	return done;
}

void contract_a_full_mesh_of_eight_endpoints_works(const char *transport)
{
	static const struct shape shape = { .size = 8, .channels = 2, .slots = 2, .piece = 4096 };
	struct mesh *mesh = calloc(1, sizeof(*mesh));
	uint64_t deadline = now_ms() + fixture_wait_ms;

	mesh->shared = shared_create();
	if (fixtures_open(mesh->fixtures, mesh->shared, transport, &shape))
		while (!mesh_round(mesh, &shape, 50))
			if (!fixture_wait(mesh->fixtures, deadline, "the mesh"))
				break;
	fixtures_close(mesh->fixtures);
	shared_end(mesh->shared);
	free(mesh);
}

void contract_channels_do_not_mix(const char *transport)
{
	struct shape shape = shape_small;
	struct ends ends;

	shape.channels = 2;
	if (ends_open(&ends, transport, shape)) {
		struct rd_link *from = ends.fixtures[0].links[1][1];
		struct rd_link *to = ends.fixtures[1].links[0][1];
		uint64_t sent = flood(ends.fixture, ends.from, 0, ends.most);
		size_t size = fixture_fit(ends.fixture, 100);

		/* One channel is full; the other still works. */
		for (uint64_t key = 0; key < 20; key++)
			if (!send_message(ends.fixture, from, ~key, size) ||
				!recv_message(ends.fixture, to, ~key, size))
				break;
		for (uint64_t key = 0; key < sent; key++)
			if (!recv_message(ends.fixture, ends.to, key, ends.most))
				break;
	}
	ends_close(&ends);
}
