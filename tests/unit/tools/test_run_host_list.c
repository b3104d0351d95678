/* rondo-run: the list of --hosts. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/hosts/list.h"

static void assert_host(const char *text, const char *name, int local_size)
{
	struct host_list list;
	const char *reason = host_list_read(&list, text);

	cr_assert_null(reason, "%s: %s", text, reason);
	cr_assert_eq(list.count, 1);
	cr_assert_str_eq(list.hosts[0].name, name);
	cr_assert_eq(list.hosts[0].local_size, local_size, "%s", text);
	host_list_finish(&list);
}

Test(run_host_list, a_host_is_a_name_or_an_address_and_a_number_of_ranks)
{
	assert_host("a", "a", 0);
	assert_host("a:4", "a", 4);
	assert_host("user@a.example:65536", "user@a.example", 65536);
	assert_host("10.0.0.1:2", "10.0.0.1", 2);
	assert_host("fd00::1", "fd00::1", 0);
	assert_host("[fd00::1]", "fd00::1", 0);
	assert_host("[fd00::1]:8", "fd00::1", 8);
	assert_host("user@[fd00::1]:8", "user@fd00::1", 8);
}

Test(run_host_list, hosts_keep_their_order_and_may_repeat)
{
	struct host_list list;

	cr_assert_null(host_list_read(&list, "b,a:2,b"));
	cr_assert_eq(list.count, 3);
	cr_assert_str_eq(list.hosts[0].name, "b");
	cr_assert_str_eq(list.hosts[1].name, "a");
	cr_assert_eq(list.hosts[1].local_size, 2);
	cr_assert_str_eq(list.hosts[2].name, "b");
	host_list_finish(&list);
}

Test(run_host_list, other_texts_are_refused)
{
	static const char *const texts[] = { "", ",", "a,", ",a", "a:", "a:0", "a:-1", "a:x",
		"a:65537", "a:99999999999999999999", ":4", "-oProxyCommand=x", "a b", "a'b", "a\tb",
		"[]:4", "[]" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct host_list list;

		cr_assert_not_null(host_list_read(&list, texts[i]), "'%s'", texts[i]);
		cr_assert_eq(list.count, 0);
		host_list_finish(&list);
	}
}

Test(run_host_list, the_number_of_hosts_is_bounded)
{
	static char text[2 * HOSTS_MAX + 8];
	struct host_list list;

	for (int i = 0; i < HOSTS_MAX; i++)
		memcpy(text + 2 * i, "a,", 2);
	text[2 * HOSTS_MAX - 1] = '\0';
	cr_assert_null(host_list_read(&list, text));
	cr_assert_eq(list.count, HOSTS_MAX);
	host_list_finish(&list);
	strcat(text, ",a");
	cr_assert_not_null(host_list_read(&list, text));
}
