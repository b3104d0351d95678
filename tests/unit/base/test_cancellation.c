/* The cancellation of a creation, where its descriptor alone says so. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cancellation.h"

Test(cancellation, is_seen_at_an_epoll_once_one_of_its_descriptors_is_ready, .timeout = 60)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct rd_cancellation making = { .fd = epoll_create1(EPOLL_CLOEXEC),
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.change = PTHREAD_COND_INITIALIZER };
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	epoll_ctl(making.fd, EPOLL_CTL_ADD, ends[0], &event);
	cr_expect_not(rd_is_cancelled());
	rd_cancellation_begin(&making);
	cr_expect_not(rd_is_cancelled());
	cr_assert_eq(write(ends[1], "x", 1), 1);
	cr_expect(rd_is_cancelled());
	rd_cancellation_begin(NULL);
	cr_expect_not(rd_is_cancelled());
}
