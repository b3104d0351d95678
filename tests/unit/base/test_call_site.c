/* Where a call was made, from its return address. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/call_site.h"
#include "rondo.h"

__attribute__((noinline)) static uintptr_t called_at(void)
{
	return (uintptr_t)__builtin_return_address(0);
}

Test(call_site, the_program_is_named)
{
	char text[RD_CALL_SITE_SIZE];

	rd_call_site(called_at(), text);
	cr_expect_eq(strncmp(text, "test_call_site+0x", 17), 0, "%s", text);
}

Test(call_site, a_library_is_named_with_the_place_in_its_file)
{
	void *function = dlsym(RTLD_DEFAULT, "getpid");
	char text[RD_CALL_SITE_SIZE], expected[RD_CALL_SITE_SIZE];
	Dl_info info;

	cr_assert(function && dladdr(function, &info));
	snprintf(expected, sizeof(expected), "%.50s+%#zx", strrchr(info.dli_fname, '/') + 1,
		(size_t)((char *)function - (char *)info.dli_fbase));
	/* The last byte of a call that returns to the next. */
	cr_expect_str_eq(rd_call_site((uintptr_t)function + 1, text), expected);
}

Test(call_site, an_address_in_no_file_is_no_place)
{
	char text[RD_CALL_SITE_SIZE] = "before";

	cr_expect_str_eq(rd_call_site((uintptr_t)text, text), "");
	cr_expect_str_eq(rd_call_site(0, text), "");
}

Test(call_site, the_program_s_own_text_stands_for_the_address)
{
	char text[RD_CALL_SITE_SIZE], path[2 * RD_CALL_SITE_SIZE];

	rondo_set_call_site("train.py:42");
	cr_expect_str_eq(rd_call_site(rd_call_site_here(called_at()), text), "train.py:42");
	/* The end has the line. */
	memset(path, '/', sizeof(path));
	strcpy(path + sizeof(path) - 12, "train.py:42");
	rondo_set_call_site(path);
	rd_call_site(rd_call_site_here(called_at()), text);
	cr_expect_eq(strlen(text), RD_CALL_SITE_SIZE - 1);
	cr_expect_str_eq(text + strlen(text) - 11, "train.py:42");
	rondo_set_call_site(NULL);
	rd_call_site(rd_call_site_here(called_at()), text);
	cr_expect_eq(strncmp(text, "test_call_site+0x", 17), 0, "%s", text);
}
