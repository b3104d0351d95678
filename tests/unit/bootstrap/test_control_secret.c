/* ctest label: threads */
/* Control connections of a job with a secret, and ranks that are of another job. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/control_message.h"
#include "control_ranks.h"
#include "secure/tls.h"

static void load(void)
{
	if (rd_tls_load())
		cr_skip("%s", rondo_last_error());
}

TestSuite(control_secret, .init = load, .timeout = 60);

static void give_secret(struct control_rank *rank, const char *secret)
{
	rank->settings.has_psk = true;
	strcpy((char *)rank->settings.psk, secret);
}

/* Returns the port. */
static int prepare_with_secret(int size)
{
	int port = control_prepare(size, control_no_call);

	for (int rank = 0; rank < size; rank++)
		give_secret(&ranks[rank], "of this job");
	return port;
}

/* Rank 2 is of another job: it ends before rank 1 begins. */
static void run_foreign_first(void)
{
	ranks[2].settings.init_timeout_ms = 1000;
	control_start(2, 3);
	control_start(0, 1);
	control_wait(2, 3);
	control_start(1, 2);
	control_wait(0, 2);
}

Test(control_secret, ranks_that_have_it_meet)
{
	prepare_with_secret(4);
	control_run(4);
	control_expect(0, 4, 0, "");
}

Test(control_secret, a_rank_that_has_another_one_is_turned_away)
{
	int port = prepare_with_secret(2);

	control_prepare_rank(&ranks[2], 1, 2, port, control_no_call);
	give_secret(&ranks[2], "of another job");
	run_foreign_first();
	control_expect(
		2, 3, RONDO_UNREACHABLE, "the two do not have the same secret: RONDO_SECRET_FILE");
	control_expect(0, 2, 0, "");
}

Test(control_secret, rank_0_counts_those_that_it_turns_away)
{
	prepare_with_secret(2);
	give_secret(&ranks[1], "of another job");
	ranks[0].settings.init_timeout_ms = ranks[1].settings.init_timeout_ms = 1000;
	control_start(0, 2);
	control_wait(0, 2);
	control_expect(0, 1, RONDO_TIMEOUT, "did not prove to be of this job");
	control_expect(1, 2, RONDO_UNREACHABLE, "do not have the same secret");
}

Test(control_secret, a_rank_that_has_none_is_told_of_it)
{
	prepare_with_secret(2);
	ranks[1].settings.has_psk = false;
	ranks[0].settings.init_timeout_ms = ranks[1].settings.init_timeout_ms = 1000;
	control_start(0, 2);
	control_wait(0, 2);
	control_expect(1, 2, RONDO_UNREACHABLE, "or have a secret");
}

/* ---- Other jobs ---------------------------------------------------------------------------- */

/* Two jobs of one port, without secrets: the first waits on for its own rank. */
Test(control_secret, a_rank_of_another_job_takes_no_seat)
{
	int port = control_prepare(2, control_no_call);

	strcpy(ranks[0].settings.job, "this job");
	strcpy(ranks[1].settings.job, "this job");
	control_prepare_rank(&ranks[2], 1, 2, port, control_no_call);
	strcpy(ranks[2].settings.job, "another job");
	run_foreign_first();
	control_expect(2, 3, RONDO_UNREACHABLE, "it may be of another job");
	control_expect(0, 2, 0, "");
}

/* ---- Forged messages ------------------------------------------------------------------------ */

/* All that a rank of this job would say, but for the proof. */
static size_t forge(unsigned char frame[RD_FRAME_MAX])
{
	const struct rd_settings *settings = &ranks[1].settings;
	struct rd_control_message hello = { .kind = RD_CONTROL_HELLO,
		.hello = { .version = RD_WIRE_VERSION,
			.rank = 1,
			.size = 2,
			.digest = rd_settings_digest(settings),
			.channels = settings->channels,
			.piece_size = settings->piece_size,
			.identity = ranks[1].self } };

	strcpy(hello.hello.library, rondo_version());
	return rd_control_encode(&hello, frame);
}

Test(control_secret, a_forged_hello_takes_no_seat)
{
	int port = prepare_with_secret(2), forger = control_connect(port);
	unsigned char frame[RD_FRAME_MAX];
	size_t size = forge(frame);
	char answer[64];

	cr_assert_eq(send(forger, frame, size, 0), (ssize_t)size);
	control_start(0, 1);
	cr_expect_leq(recv(forger, answer, sizeof(answer), 0), 0, "it was answered");
	control_start(1, 2);
	control_wait(0, 2);
	control_expect(0, 2, 0, "");
	close(forger);
}

/* The same without a secret: the forger is in. */
Test(control_secret, which_it_does_where_there_is_none)
{
	int port = control_prepare(2, control_no_call), forger = control_connect(port);
	unsigned char frame[RD_FRAME_MAX];
	size_t size = forge(frame);
	char answer[64];

	cr_assert_eq(send(forger, frame, size, 0), (ssize_t)size);
	control_start(0, 1);
	cr_expect_gt(recv(forger, answer, sizeof(answer), 0), 0);
	close(forger);
	control_wait(0, 1);
	control_expect(0, 1, RONDO_DIED, "rank 1");
}
