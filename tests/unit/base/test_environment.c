/* Texts from the environment that reach terminals and JSON. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/environment.h"

Test(environment, what_steers_a_terminal_or_is_no_utf8_becomes_a_question_mark)
{
	static const struct {
		const char *given, *wanted;
	} cases[] = { { "node\xc3\xa4", "node\xc3\xa4" }, { "a\nb\x1b[2Jc\x7f", "a?b?[2Jc?" },
		{ "caf\xe9", "caf?" }, { "\xff\xfe", "??" }, { "\xc0\xaf", "??" },
		{ "\xed\xa0\x80", "???" }, { "cut \xe2\x82", "cut ??" },
		{ "\xe2\x82\xac", "\xe2\x82\xac" } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[32];

		strcpy(text, cases[i].given);
		rd_disarm(text, strlen(text));
		cr_expect_str_eq(text, cases[i].wanted, "case %zu", i);
	}
}
