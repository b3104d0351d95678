#include "many_comms.h"

#include <stdlib.h>

#define BLOCK_MOST 8

/* ---- Making ---------------------------------------------------------------------------------- */

bool made_comm_has(const struct made_comm *made, int rank)
{
	for (int i = 0; i < made->size; i++)
		if (made->ranks[i] == rank)
			return true;
	return false;
}

static int check(struct rank_env *env, const struct many_comms *many, const struct made_comm *made)
{
	int rank = made->comm ? rondo_comm_rank(made->comm) : -1;

	if (!made->comm)
		return 0;
	if (rondo_comm_size(made->comm) != made->size || made->ranks[rank] != env->rank)
		return world_report(env, "comm %d: rank %d is %d of %d", many->count, env->rank,
			rank, rondo_comm_size(made->comm));
	return 0;
}

static int add(struct rank_env *env, struct many_comms *many, const struct made_comm *made)
{
	int wrong = check(env, many, made);

	many->list[many->count++] = *made;
	return wrong;
}

static int duplicate(struct rank_env *env, struct many_comms *many, const struct made_comm *parent)
{
	struct made_comm made = *parent;

	if (parent->comm)
		TRY(rondo_comm_duplicate(parent->comm, &made.comm));
	return add(env, many, &made);
}

/* Two parts, of which one may be empty; in the second the order is reversed. */
static int split(struct rank_env *env, struct many_comms *many, const struct made_comm *parent,
	struct draw *from)
{
	struct made_comm parts[2] = { 0 };
	int color = 0, key = 0;

	for (int i = 0; i < parent->size; i++) {
		int to = (int)draw(from, 2);
		struct made_comm *part = &parts[to];

		for (int k = part->size; to && k > 0; k--)
			part->ranks[k] = part->ranks[k - 1];
		part->ranks[to ? 0 : part->size] = parent->ranks[i];
		part->size++;
		if (parent->ranks[i] != env->rank)
			continue;
		color = to;
		key = to ? -i : i;
	}
	if (parent->comm)
		TRY(rondo_comm_split(parent->comm, color, key, &parts[color].comm));
	for (int i = 0; i < 2; i++)
		if (parts[i].size && add(env, many, &parts[i]))
			return 1;
	return 0;
}

static int group(struct rank_env *env, struct many_comms *many, const struct made_comm *parent,
	struct draw *from)
{
	struct made_comm made = { 0 };
	int places[WORLD_MAX] = { 0 }, tag = (int)draw(from, 3);

	for (int i = 0; i < parent->size; i++) {
		int at = (int)draw(from, (uint64_t)made.size + 1);

		if (draw_one_in(from, 3) && (made.size || i < parent->size - 1))
			continue;
		places[made.size] = places[at];
		places[at] = i;
		made.size++;
	}
	for (int i = 0; i < made.size; i++)
		made.ranks[i] = parent->ranks[places[i]];
	if (made_comm_has(&made, env->rank))
		TRY(rondo_comm_create_group(parent->comm, places, made.size, tag, &made.comm));
	return add(env, many, &made);
}

int many_comms_make(struct rank_env *env, struct many_comms *many, int count, struct draw *from)
{
	struct made_comm all = { .comm = env->comm, .size = env->size };
	int wrong;

	many->list = calloc((size_t)count + 1, sizeof(*many->list));
	many->count = 0;
	if (env->create_error || !many->list)
		return world_report(env, "no comm: %s", rondo_last_error());
	for (int rank = 0; rank < env->size; rank++)
		all.ranks[rank] = rank;
	env->comm = NULL;
	wrong = add(env, many, &all);
	while (many->count < count && !wrong) {
		/* A split moves none of them: there is room for its second part. */
		const struct made_comm *parent = &many->list[draw(from, (uint64_t)many->count)];

		switch (draw(from, 3)) {
		case 0:
			wrong = duplicate(env, many, parent);
			break;
		case 1:
			wrong = split(env, many, parent, from);
			break;
		default:
			wrong = group(env, many, parent, from);
		}
	}
	return wrong;
}

void many_comms_free(struct many_comms *many)
{
	for (int i = 0; i < many->count; i++)
		rondo_comm_destroy(many->list[i].comm);
	free(many->list);
	many->list = NULL;
	many->count = 0;
}

/* ---- Using ----------------------------------------------------------------------------------- */

/* Each rank's own, in each call and element. */
static int64_t value_of(uint64_t number, int rank, int element)
{
	struct draw from = draw_from(number, (uint64_t)(rank * BLOCK_MOST + element));

	return (int64_t)draw(&from, 1u << 30);
}

static int64_t sum_of(const struct made_comm *made, uint64_t number, int element)
{
	int64_t sum = 0;

	for (int i = 0; i < made->size; i++)
		sum += value_of(number, made->ranks[i], element);
	return sum;
}

int made_comm_use(struct rank_env *env, const struct made_comm *made, uint64_t number, int *error)
{
	int64_t in[BLOCK_MOST], out[BLOCK_MOST * WORLD_MAX], wanted;
	int count = 1 + (int)(number / 4 % BLOCK_MOST), kind = (int)(number % 4), err;
	int root = (int)(number / 64 % (uint64_t)made->size);

	for (int i = 0; i < count; i++)
		in[i] = value_of(number, env->rank, i);
	if (kind == 0)
		err = rondo_barrier(made->comm, NULL);
	else if (kind == 1)
		err = rondo_all_reduce(
			made->comm, in, out, (size_t)count, RONDO_I64, RONDO_SUM, NULL);
	else if (kind == 2)
		err = rondo_all_gather(made->comm, in, out, (size_t)count, RONDO_I64, NULL);
	else
		err = rondo_broadcast(made->comm, in, out, (size_t)count, RONDO_I64, root, NULL);
	if (error)
		*error = err;
	if (err)
		return error ? 0
			     : world_report(env, "call %d: %s: %s", kind, rondo_error_name(err),
				       rondo_last_error());
	for (int i = 0; i < (kind == 2 ? count * made->size : kind ? count : 0); i++) {
		wanted = kind == 1   ? sum_of(made, number, i)
			 : kind == 2 ? value_of(number, made->ranks[i / count], i % count)
				     : value_of(number, made->ranks[root], i);
		if (out[i] != wanted)
			return world_report(env, "call %d: element %d is %lld, not %lld", kind, i,
				(long long)out[i], (long long)wanted);
	}
	return 0;
}
