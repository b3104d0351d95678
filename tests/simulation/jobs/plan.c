/* The groups of a seed: who makes which, when, and what goes wrong. */
#include <string.h>

#include "base/hash.h"
#include "world.h"

int plan_number(int comm, int rank)
{
	for (int i = 0; i < job.comms[comm].size; i++)
		if (job.comms[comm].members[i] == rank)
			return i;
	return -1;
}

static void draw_part(struct draw *stream, struct part *part, bool is_first)
{
	memset(part, 0, sizeof(*part));
	part->delay_ms = (int)draw(stream, draw_one_in(stream, 8) ? 300 : 40);
	part->use_ms = (int)draw(stream, draw_one_in(stream, 4) ? 1500 : 300);
	part->finalizes = draw_one_in(stream, 6);
	part->absent = draw_one_in(stream, 60) && !is_first;
	part->odd = draw_one_in(stream, 120);
	part->cancel_ms = draw_one_in(stream, 40) ? (int)draw(stream, 100) : -1;
	part->revoke_ms = draw_one_in(stream, 60) ? (int)draw(stream, 200) : -1;
	atomic_store(&part->activity.collective, -1);
	atomic_store(&part->activity.waiting_for, -1);
}

/* In the parent's order, or any. */
static void draw_members(struct draw *stream, struct job_comm *comm, const struct job_comm *parent)
{
	bool duplicates = draw_one_in(stream, 3), mixes = draw_one_in(stream, 2);

	comm->size = 0;
	while (comm->size < 2) {
		comm->size = 0;
		for (int i = 0; i < parent->size; i++)
			if (duplicates || !draw_one_in(stream, 3))
				comm->members[comm->size++] = parent->members[i];
	}
	for (int i = comm->size - 1; i > 0 && mixes && !duplicates; i--) {
		int k = (int)draw(stream, (uint64_t)i + 1), rank = comm->members[i];

		comm->members[i] = comm->members[k];
		comm->members[k] = rank;
	}
}

static bool are_alike(const struct job_comm *a, const struct job_comm *b, uint64_t tag)
{
	return a->parent == b->parent && a->size == b->size && (uint32_t)a->purpose == tag &&
	       memcmp(a->members, b->members, sizeof(int) * (size_t)a->size) == 0;
}

/* As api/create_group.c counts: each of the same list and tag has a purpose of its own. */
static uint64_t draw_purpose(struct draw *stream, int index)
{
	uint64_t tag = draw(stream, 2), times = 0;

	for (int i = 1; i < index; i++)
		times += are_alike(&job.comms[i], &job.comms[index], tag);
	return tag | times << 32;
}

void plan_draw(uint64_t seed, int comms)
{
	struct draw stream = draw_from(seed, 25);

	job.comm_count = comms;
	for (int i = 0; i < comms; i++) {
		struct job_comm *comm = &job.comms[i];

		comm->parent = i == 0 ? -1 : (int)draw(&stream, draw_one_in(&stream, 2) ? i : 1);
		comm->size = job.size;
		for (int k = 0; k < job.size && i == 0; k++)
			comm->members[k] = k;
		if (i > 0)
			draw_members(&stream, comm, &job.comms[comm->parent]);
		comm->purpose = i == 0 ? 0 : draw_purpose(&stream, i);
		comm->limits = i > 0 && draw_one_in(&stream, 2);
		comm->id = 0;
		for (int k = 0; k < comm->size; k++)
			draw_part(&stream, &comm->parts[k], i == 0);
	}
}
