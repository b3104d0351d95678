/* A rank that lacks memory for the table of members, in a group: all were ready as they came. */
#include <criterion/criterion.h>

#include "base/error.h"
#include "rendezvous/net.h"

static int reads, lacks_at;

int __real_rd_table_read(struct rd_table_reader *reader, const struct rd_table_part *part,
	struct rd_member *members, struct rd_cards *cards, uint32_t size);
int __wrap_rd_table_read(struct rd_table_reader *reader, const struct rd_table_part *part,
	struct rd_member *members, struct rd_cards *cards, uint32_t size);

int __wrap_rd_table_read(struct rd_table_reader *reader, const struct rd_table_part *part,
	struct rd_member *members, struct rd_cards *cards, uint32_t size)
{
	return ++reads == lacks_at ? rd_fail(RONDO_MEMORY, "no memory for it")
				   : __real_rd_table_read(reader, part, members, cards, size);
}

Test(rendezvous, a_rank_without_memory_for_the_members_is_named)
{
	for (int rank = 0; rank < 3; rank++) {
		net_init(3, 1);
		for (int i = 0; i < net.size; i++)
			net.nodes[i].early = true;
		reads = 0;
		lacks_at = 1 + rank;
		net_expect_verdict(RONDO_MEMORY, ": no memory for the table of members");
	}
}
