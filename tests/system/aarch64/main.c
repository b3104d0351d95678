#include <criterion/criterion.h>

struct test *tests;

int main(void)
{
	for (const struct test *test = tests; test; test = test->next) {
		test->run();
		puts(test->name);
	}
	return 0;
}
