/* ctest label: threads */
/* The job's secret: where it comes from, and which files are refused. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "secure/secret.h"
#include "secure/tls.h"

static char folder[] = "/tmp/rondo-secret-XXXXXX";
static char path[64];

static void make_folder(void)
{
	if (rd_tls_load())
		cr_skip("%s", rondo_last_error());
	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/secret", folder);
}

static void remove_folder(void)
{
	unlink(path);
	rmdir(folder);
}

TestSuite(secret, .init = make_folder, .fini = remove_folder, .timeout = 60);

static struct rd_settings settings_of(int rank)
{
	struct rd_settings settings = { .rank = rank,
		.size = 2,
		.secret_fd = -1,
		.secret_file = path,
		.init_timeout_ms = 10000 };

	return settings;
}

static void write_secret(const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	cr_assert_eq(fchmod(fd, mode), 0);
	close(fd);
}

static void expect_refused(struct rd_settings *settings, const char *reason)
{
	cr_expect_eq(rd_secret_find(settings), RONDO_SETTING);
	cr_expect(strstr(rondo_last_error(), reason), "\"%s\" lacks \"%s\"", rondo_last_error(),
		reason);
	cr_expect_not(settings->has_psk);
}

static void *find_in_thread(void *settings)
{
	return (void *)(intptr_t)rd_secret_find(settings);
}

Test(secret, rank_0_writes_the_file_and_the_others_wait_for_it)
{
	struct rd_settings first = settings_of(0), second = settings_of(1);
	struct stat status;
	pthread_t thread;
	void *result;

	cr_assert_eq(pthread_create(&thread, NULL, find_in_thread, &second), 0);
	cr_assert_eq(rd_secret_find(&first), 0, "%s", rondo_last_error());
	cr_assert_eq(pthread_join(thread, &result), 0);
	cr_assert_null(result);
	cr_expect(first.has_psk && second.has_psk);
	cr_expect_arr_eq(first.psk, second.psk, RD_PSK_SIZE);
	cr_assert_eq(stat(path, &status), 0);
	cr_expect_eq(status.st_mode & 0777, 0600);
	cr_expect_eq(status.st_size, 65);
	cr_expect_eq(unlink(path), 0);
	cr_expect_eq(rmdir(folder), 0, "a draft is left");
	cr_assert_eq(mkdir(folder, 0700), 0);
}

Test(secret, a_file_that_is_there_stays_as_it_is)
{
	struct rd_settings settings = settings_of(0);
	char text[64] = "";
	FILE *file;

	write_secret("sixteen bytes it has\n", 0600);
	cr_expect_eq(rd_secret_find(&settings), 0);
	file = fopen(path, "r");
	cr_assert(file && fgets(text, sizeof(text), file));
	fclose(file);
	cr_expect_str_eq(text, "sixteen bytes it has\n");
}

Test(secret, each_job_and_each_secret_has_its_own_key)
{
	struct rd_settings one = settings_of(0), job = settings_of(0), meeting = settings_of(0),
			   other = settings_of(0);

	write_secret("sixteen bytes it has\n", 0600);
	strcpy(job.job, "another job");
	meeting.has_key = true;
	meeting.key[0] = 1;
	cr_assert_eq(rd_secret_find(&one) + rd_secret_find(&job) + rd_secret_find(&meeting), 0);
	write_secret("sixteen bytes it had\n", 0600);
	cr_assert_eq(rd_secret_find(&other), 0);
	cr_expect_arr_neq(one.psk, job.psk, RD_PSK_SIZE);
	cr_expect_arr_neq(one.psk, meeting.psk, RD_PSK_SIZE);
	cr_expect_arr_neq(one.psk, other.psk, RD_PSK_SIZE);
}

Test(secret, files_that_others_may_read_or_write_are_refused)
{
	static const mode_t modes[] = { 0640, 0604, 0620, 0602, 0601 };

	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		struct rd_settings settings = settings_of(0);

		write_secret("sixteen bytes it has\n", modes[i]);
		expect_refused(&settings, "chmod 600");
	}
}

Test(secret, files_that_are_none_or_of_a_wrong_size_are_refused)
{
	struct rd_settings settings = settings_of(0), lost = settings_of(1);
	char long_text[RD_SECRET_MOST + 2];

	write_secret("too short", 0600);
	expect_refused(&settings, "16 to 4096 bytes");
	memset(long_text, 'a', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	write_secret(long_text, 0600);
	expect_refused(&settings, "16 to 4096 bytes");
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(mkfifo(path, 0600), 0);
	expect_refused(&settings, "no regular file");
	cr_assert_eq(unlink(path), 0);
	lost.init_timeout_ms = 50;
	expect_refused(&lost, "rank 0 has not written it within 50 ms");
}

Test(secret, a_link_that_leads_nowhere_is_no_hang)
{
	struct rd_settings settings = settings_of(0);

	cr_assert_eq(symlink("/nowhere/at/all", path), 0);
	settings.init_timeout_ms = 50;
	expect_refused(&settings, "does not exist");
}

Test(secret, another_users_file_is_refused)
{
	struct rd_settings settings = settings_of(0);

	if (geteuid() != 0)
		cr_skip("only root makes files of other users");
	write_secret("sixteen bytes it has\n", 0600);
	cr_assert_eq(chown(path, 12345, 12345), 0);
	expect_refused(&settings, "belongs to another user (12345)");
}

Test(secret, a_descriptor_goes_before_the_file_and_stays_out_of_other_programs)
{
	struct rd_settings settings = settings_of(0), again = settings_of(1);
	int fd;

	cr_assert_eq(rd_secret_make(&fd), 0);
	cr_assert_eq(fcntl(fd, F_SETFD, 0), 0);
	cr_expect_lt(write(fd, "x", 1), 0, "the secret can be changed");
	settings.secret_fd = again.secret_fd = fd;
	cr_assert_eq(rd_secret_find(&settings), 0, "%s", rondo_last_error());
	cr_assert_eq(rd_secret_find(&again), 0, "%s", rondo_last_error());
	cr_expect_arr_eq(settings.psk, again.psk, RD_PSK_SIZE);
	cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	again.has_psk = false;
	expect_refused(&again, "holds no secret");
}

Test(secret, a_file_that_has_got_the_descriptors_number_is_none)
{
	struct rd_settings settings = settings_of(0);

	write_secret("sixteen bytes it has\n", 0600);
	settings.secret_fd = open(path, O_RDONLY | O_CLOEXEC);
	expect_refused(&settings, "holds no secret");
	close(settings.secret_fd);
}

Test(secret, a_meetings_key_goes_before_the_launchers_secret_and_beside_the_file)
{
	struct rd_settings one = settings_of(0), other = settings_of(1), file = settings_of(0);

	one.secret_file = other.secret_file = "";
	one.has_key = other.has_key = file.has_key = true;
	strcpy(one.job, "x a launcher's name of the job");
	one.job[0] = '\0';
	cr_assert_eq(rd_secret_make(&one.secret_fd) + rd_secret_make(&other.secret_fd), 0);
	write_secret("sixteen bytes it has\n", 0600);
	cr_assert_eq(rd_secret_find(&one) + rd_secret_find(&other) + rd_secret_find(&file), 0);
	cr_expect_arr_eq(one.psk, other.psk, RD_PSK_SIZE);
	cr_expect_arr_neq(one.psk, file.psk, RD_PSK_SIZE);
	close(one.secret_fd);
	close(other.secret_fd);
}

Test(secret, the_key_of_a_meeting_will_do)
{
	struct rd_settings one = settings_of(0), other = settings_of(1), none = settings_of(0);

	one.secret_file = other.secret_file = none.secret_file = "";
	one.has_key = other.has_key = true;
	memset(one.key, 7, sizeof(one.key));
	memset(other.key, 7, sizeof(other.key));
	cr_assert_eq(rd_secret_find(&one) + rd_secret_find(&other) + rd_secret_find(&none), 0);
	cr_expect(one.has_psk && other.has_psk);
	cr_expect_arr_eq(one.psk, other.psk, RD_PSK_SIZE);
	cr_expect_not(none.has_psk);
}
