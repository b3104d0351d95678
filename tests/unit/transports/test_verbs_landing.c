/* Announcements of verbs: the peer writes them into memory that this rank reads meanwhile. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/hash.h"
#include "transports/verbs/landing.h"

static struct rd_verbs_landing announced(uint64_t number, uint64_t address)
{
	struct rd_verbs_landing landing = {
		.number = number, .address = address, .key = 7, .size = 8192
	};

	landing.check = rd_hash(RD_HASH_INIT, &landing, offsetof(struct rd_verbs_landing, check));
	return landing;
}

Test(verbs_landing, an_announcement_is_taken_whole_or_not_at_all)
{
	struct rd_verbs_landing first = announced(41, 0x10000), second = announced(42, 0x20000);
	struct rd_verbs_landing memory = first;
	struct rd_verbs_link link = { .memory = &memory };

	rd_verbs_landing_arrived(&link, 1);
	cr_assert_eq(memcmp(&link.out.landing, &first, sizeof(first)), 0);
	cr_assert_eq(link.out.landing_rail, 1);
	/* The second one arrives in order, or in any other: 8 bytes at a time. */
	for (unsigned part = 1; part < 15; part++) {
		memory = first;
		for (unsigned i = 0; i < 4; i++)
			if (part >> i & 1)
				memcpy((uint64_t *)&memory + i, (uint64_t *)&second + i, 8);
		/* They have the same key and size, the third part. */
		if ((part & 11) == 0 || (part & 11) == 11)
			continue;
		rd_verbs_landing_arrived(&link, 1);
		cr_assert_eq(link.out.landing.size, 0, "parts %u of the second were taken", part);
	}
}
