/* ctest label: threads */
/* Ranks as processes that leave, and end, while rank 0 does not run. */
#include <criterion/criterion.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control_ranks.h"

#define MANY (4 << 20) /* requests, which are more bytes than the sockets take */

/* In memory that the ranks share. */
static struct leaving {
	sem_t go[3]; /* of each rank */
	int error; /* of rank 0 */
	char reason[RD_REASON_SIZE];
} * leaving;

static pid_t start(int number, void (*body)(struct control_rank *))
{
	struct control_rank *rank = &ranks[number];
	pid_t pid = fork();

	if (pid)
		return pid;
	rank->self.member.place.pid = getpid();
	if (control_join_and_open(rank))
		_exit(1);
	body(rank);
	_exit(0);
}

static void prepare(int size)
{
	leaving = mmap(
		NULL, sizeof(*leaving), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	control_prepare(size, NULL);
	for (int i = 0; i < 3; i++)
		sem_init(&leaving->go[i], 1, 0);
}

static void stop_and_leave(struct control_rank *rank)
{
	raise(SIGSTOP);
	control_leave(rank);
	leaving->error = rank->error;
	memcpy(leaving->reason, rank->reason, RD_REASON_SIZE);
}

static void await_and_leave(struct control_rank *rank)
{
	sem_wait(&leaving->go[rank->rank]);
	rd_control_leave(rank->control);
}

/* Rank 0 finds a request of this rank, behind which the report of a death would come. */
static void request_and_leave(struct control_rank *rank)
{
	int zero = 0;

	sem_wait(&leaving->go[1]);
	rd_control_open(rank->control, &zero, 1);
	sem_post(&leaving->go[2]);
	await_and_leave(rank);
}

Test(control_leaving, the_end_of_a_rank_that_has_left_is_no_death, .timeout = 60)
{
	pid_t pids[3];

	prepare(3);
	pids[0] = start(0, stop_and_leave);
	pids[1] = start(1, request_and_leave);
	pids[2] = start(2, await_and_leave);
	waitpid(pids[0], NULL, WUNTRACED);
	sem_post(&leaving->go[1]);
	waitpid(pids[2], NULL, 0);
	sem_post(&leaving->go[1]);
	waitpid(pids[1], NULL, 0);
	kill(pids[0], SIGCONT);
	waitpid(pids[0], NULL, 0);
	cr_expect_eq(leaving->error, 0, "%s", leaving->reason);
}

static void fill_and_leave(struct control_rank *rank)
{
	int *zeros = calloc(MANY, sizeof(*zeros));

	rd_control_open(rank->control, zeros, MANY);
	rd_control_leave(rank->control);
}

/* Rank 0 refuses that many requests, once it continues. */
Test(control_leaving, a_rank_stays_until_its_goodbye_is_sent, .timeout = 60)
{
	pid_t zero, leaver;
	int end[2];
	struct pollfd ended;

	prepare(2);
	zero = start(0, stop_and_leave);
	cr_assert_eq(pipe(end), 0);
	leaver = start(1, fill_and_leave);
	close(end[1]);
	ended = (struct pollfd){ .fd = end[0], .events = POLLIN };
	waitpid(zero, NULL, WUNTRACED);
	cr_expect_eq(poll(&ended, 1, 500), 0);
	kill(zero, SIGCONT);
	cr_expect_eq(poll(&ended, 1, -1), 1);
	waitpid(zero, NULL, 0);
	waitpid(leaver, NULL, 0);
	close(end[0]);
}
