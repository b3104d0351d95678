/* The part that the comms of a job share: each sleeper is woken, on an epoll of its own. */
#include <criterion/criterion.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transports/contract/leaks.h"
#include "transports/shared.h"

static bool is_woken(int epoll_fd)
{
	struct epoll_event event;
	bool woken = epoll_wait(epoll_fd, &event, 1, 0) == 1;

	while (epoll_wait(epoll_fd, &event, 1, 0) == 1)
		;
	return woken;
}

static struct rd_shared *make(void)
{
	struct rd_shared *shared;

	cr_assert_eq(rd_shared_make(&shared), 0);
	return shared;
}

Test(sleepers, each_write_wakes_all_who_sleep)
{
	struct rd_shared *shared = make();
	int one = rd_shared_borrow(shared), other = rd_shared_borrow(shared);

	cr_assert(one >= 0 && other >= 0 && one != other);
	for (int i = 0; i < 3; i++) {
		cr_expect(!is_woken(one) && !is_woken(other));
		eventfd_write(shared->wake_fd, 1);
		cr_expect(is_woken(one) && is_woken(other) && is_woken(shared->control_fd));
	}
	rd_shared_release(shared);
}

Test(sleepers, an_epoll_that_was_given_back_is_borrowed_again)
{
	struct rd_shared *shared = make();
	int one = rd_shared_borrow(shared), other;

	rd_shared_give_back(shared, one);
	cr_expect_eq(rd_shared_borrow(shared), one);
	other = rd_shared_borrow(shared);
	rd_shared_close(shared, one);
	rd_shared_give_back(shared, other);
	cr_expect_eq(rd_shared_borrow(shared), other);
	rd_shared_release(shared);
}

Test(sleepers, a_watched_descriptor_wakes_all_who_sleep_until_it_is_closed)
{
	struct rd_shared *shared = make();
	int early = rd_shared_borrow(shared), late, watched = eventfd(0, EFD_CLOEXEC);

	cr_assert_eq(rd_shared_watch(shared, watched), 0);
	late = rd_shared_borrow(shared);
	cr_expect(!is_woken(early) && !is_woken(late));
	eventfd_write(watched, 1);
	cr_expect(is_woken(early) && is_woken(late) && is_woken(shared->control_fd));
	rd_shared_unwatch(shared, watched);
	eventfd_write(watched, 1);
	cr_expect(!is_woken(early) && !is_woken(late) && !is_woken(rd_shared_borrow(shared)));
	close(watched);
	rd_shared_release(shared);
}

Test(sleepers, the_last_comm_closes_every_descriptor)
{
	int files = contract_open_files();
	struct rd_shared *shared = make();

	for (int i = 0; i < 3; i++)
		rd_shared_borrow(shared);
	rd_shared_keep(shared);
	rd_shared_release(shared);
	cr_expect_eq(contract_open_files(), files + 5);
	rd_shared_release(shared);
	cr_expect_eq(contract_open_files(), files);
	shared = make();
	rd_shared_borrow(shared);
	rd_shared_abandon(shared);
	cr_expect_eq(contract_open_files(), files);
}
