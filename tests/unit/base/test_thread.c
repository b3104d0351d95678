/* The library's threads in a program with many thread-local variables. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/thread.h"

#define STACK_SIZE (128 << 10)

static _Thread_local volatile char of_each_thread[4 * STACK_SIZE];

static void *use_half_of_the_stack(void *argument)
{
	volatile char bytes[STACK_SIZE / 2];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)i;
	of_each_thread[sizeof(of_each_thread) - 1] = bytes[sizeof(bytes) - 1];
	return argument;
}

Test(thread, has_its_stack_beside_thread_local_variables, .timeout = 60)
{
	pthread_t thread;
	void *result = NULL;
	int error = rd_thread_start(&thread, STACK_SIZE, use_half_of_the_stack, &thread);

	cr_assert_eq(error, 0, "%s", strerror(error));
	pthread_join(thread, &result);
	cr_expect_eq(result, &thread);
}
