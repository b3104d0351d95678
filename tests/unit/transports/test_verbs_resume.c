/* The counts by which a link of verbs goes on over another rail. */
#include <criterion/criterion.h>

#include "transports/verbs/resume.h"

/* A receiver sends these counts. The sender of `count` messages, who knows of `known` released
   ones, decodes them to the same. */
static void try_counts(uint64_t known, uint64_t released, uint64_t arrived, uint64_t count)
{
	struct rd_verbs_counts sent = { .arrived = arrived, .released = released }, read = { 0 };
	uint32_t immediate = rd_verbs_resume_encode(sent);

	cr_assert_eq(immediate >> 23, 0, "%x", immediate);
	cr_assert(rd_verbs_resume_decode(immediate, count, known, &read), "%lu", released);
	cr_assert_eq(read.arrived, arrived);
	cr_assert_eq(read.released, released);
}

Test(verbs_resume, keeps_all_counts_that_a_link_can_have)
{
	static const uint64_t starts[] = { 0, 1, 65472, 65535, 65536, 131071, UINT32_MAX - 64,
		UINT32_MAX, (uint64_t)UINT32_MAX + 1, 1ull << 48 };

	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		for (uint64_t released = 0; released <= RD_VERBS_MESSAGES; released++)
			for (uint64_t held = 0; released + held <= RD_VERBS_MESSAGES; held++)
				for (uint64_t lost = 0; released + held + lost <= RD_VERBS_MESSAGES;
					lost += 7)
					try_counts(starts[i], starts[i] + released,
						starts[i] + released + held,
						starts[i] + released + held + lost);
}

Test(verbs_resume, refuses_counts_of_messages_that_were_never_sent)
{
	struct rd_verbs_counts counts;

	/* More have arrived, or were released, than were sent. */
	cr_assert(!rd_verbs_resume_decode(
		rd_verbs_resume_encode((struct rd_verbs_counts){ 11, 10 }), 10, 5, &counts));
	cr_assert(!rd_verbs_resume_decode(
		rd_verbs_resume_encode((struct rd_verbs_counts){ 11, 11 }), 10, 5, &counts));
	/* Fewer were released than before. */
	cr_assert(!rd_verbs_resume_decode(
		rd_verbs_resume_encode((struct rd_verbs_counts){ 4, 4 }), 10, 5, &counts));
	cr_assert(!rd_verbs_resume_decode(0x7f0000, 64, 0, &counts));
	cr_assert(!rd_verbs_resume_decode(0xffff, 65536 + 64, 65536, &counts));
}

Test(verbs_resume, rails_take_turns_and_end)
{
	cr_assert_eq(rd_verbs_rail_after(0, 0x2), 1);
	cr_assert_eq(rd_verbs_rail_after(1, 0x1), 0);
	cr_assert_eq(rd_verbs_rail_after(1, 0xd), 2);
	cr_assert_eq(rd_verbs_rail_after(3, 0x7), 0);
	cr_assert_eq(rd_verbs_rail_after(7, 0x44), 2);
	cr_assert_eq(rd_verbs_rail_after(0, 0), -1);
}
