/* Completion statuses and events in words. */
#include <criterion/criterion.h>
#include <string.h>

#include "transports/verbs/status.h"

Test(verbs_status, has_a_name_and_a_meaning_each)
{
	struct rd_verbs_status one;

	for (int i = IBV_WC_SUCCESS + 1; i <= IBV_WC_GENERAL_ERR; i++) {
		one = rd_verbs_completion_status((enum ibv_wc_status)i);
		cr_assert(one.name && one.meaning && strlen(one.meaning) > 10, "status %d", i);
		/* With a reason before it, it fits in the reason of a link. */
		cr_assert_lt(strlen(one.name) + strlen(one.meaning), 100, "%s", one.name);
	}
	one = rd_verbs_completion_status(IBV_WC_RETRY_EXC_ERR);
	cr_assert_str_eq(one.name, "IBV_WC_RETRY_EXC_ERR");
	cr_assert(strstr(one.meaning, "no answer"), "%s", one.meaning);
}

Test(verbs_status, that_is_unknown_has_a_meaning_too)
{
	cr_assert_str_eq(
		rd_verbs_completion_status((enum ibv_wc_status)1000).name, "an unknown status");
	cr_assert_str_eq(
		rd_verbs_completion_status((enum ibv_wc_status) - 1).name, "an unknown status");
}

Test(verbs_status, of_an_event_names_what_failed)
{
	cr_assert_str_eq(rd_verbs_event_text(IBV_EVENT_PORT_ERR), "the port is down");
	cr_assert_not_null(rd_verbs_event_text(IBV_EVENT_DEVICE_FATAL));
	cr_assert_not_null(rd_verbs_event_text(IBV_EVENT_QP_FATAL));
	cr_assert_not_null(rd_verbs_event_text(IBV_EVENT_CQ_ERR));
	cr_assert_null(rd_verbs_event_text(IBV_EVENT_PORT_ACTIVE));
}
