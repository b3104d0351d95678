#include "run/nodes/members.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "run/base/deadline.h"
#include "run/base/memory.h"

struct member *members_find(struct members *members, int id)
{
	for (int i = 0; i < members->count; i++)
		if (members->list[i].id == id)
			return &members->list[i];
	return NULL;
}

struct member *members_add(struct members *members)
{
	members->list = memory_grow(
		members->list, members->count, &members->capacity, sizeof(*members->list));
	return &members->list[members->count++];
}

void members_remove(struct members *members, const struct member *member)
{
	size_t at = (size_t)(member - members->list);

	members->count--;
	memmove(members->list + at, members->list + at + 1,
		((size_t)members->count - at) * sizeof(*member));
}

int members_count(const struct members *members, enum member_state state)
{
	int count = 0;

	for (int i = 0; i < members->count; i++)
		count += members->list[i].state == state && !members->list[i].leaves;
	return count;
}

int64_t members_next_ready(const struct members *members)
{
	int64_t at = 0;

	for (int i = 0; i < members->count; i++)
		if (members->list[i].state == MEMBER_WAITS)
			at = deadline_earlier(at, members->list[i].ready_at);
	return at;
}

int members_missing(const struct members *members)
{
	int missing = 0;
	bool given = false;

	for (int i = 0; i < members->count; i++) {
		given |= members->list[i].hello.node >= 0;
		if (members->list[i].hello.node == missing) {
			missing++;
			i = -1;
		}
	}
	return given ? missing : -1;
}

static int compare_members(const void *a, const void *b)
{
	const struct member *one = *(const struct member *const *)a;
	const struct member *other = *(const struct member *const *)b;
	int one_node = one->node < 0 ? INT_MAX : one->node;
	int other_node = other->node < 0 ? INT_MAX : other->node;

	if (one_node != other_node)
		return one_node < other_node ? -1 : 1;
	return one->id < other->id ? -1 : one->id > other->id;
}

int members_sort(const struct members *members, bool ready, struct member ***sorted)
{
	int count = 0;

	*sorted = memory_calloc((size_t)members->count + 1, sizeof(struct member *));
	for (int i = 0; i < members->count; i++)
		if (!ready || members->list[i].state == MEMBER_READY)
			(*sorted)[count++] = &members->list[i];
	qsort(*sorted, (size_t)count, sizeof(**sorted), compare_members);
	return count;
}

void members_number(struct member **sorted, int count)
{
	struct member **nodes = memory_calloc((size_t)count, sizeof(struct member *));
	int next = 0;

	for (int i = 0; i < count; i++) {
		int wanted = sorted[i]->hello.node;

		if (wanted >= 0 && wanted < count)
			nodes[wanted] = sorted[i];
	}
	for (int i = 0; i < count; i++) {
		int wanted = sorted[i]->hello.node;

		if (wanted >= 0 && wanted < count)
			continue;
		while (nodes[next])
			next++;
		nodes[next] = sorted[i];
	}
	memcpy(sorted, nodes, (size_t)count * sizeof(*sorted));
	free(nodes);
}

void members_finish(struct members *members)
{
	free(members->list);
	*members = (struct members){ 0 };
}
