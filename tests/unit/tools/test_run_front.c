/* rondo-run --hosts with a script in the place of ssh, which runs its command on this host. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "free_port.h"
#include "program.h"
#include "text.h"
#include "run/hosts/list.h"

/* The ranks are shells: their environment, output and exit status show the launcher's work. */
#define SH(script) "sh", "-c", script

static const char ssh[] = "#!/bin/sh\n"
			  "while [ \"$1\" != -- ]; do shift; done\n"
			  "host=$2 address=127.0.0.1; shift 2\n"
			  "unset RONDO_HOST\n"
			  "case $host in\n"
			  "old) echo rondo-run-remote 0.0.1 10.0.0.1; exec cat ;;\n"
			  "refused) echo banner >&2; echo ssh: refused >&2; exit 255 ;;\n"
			  "noisy) echo welcome; echo banner >&2 ;;\n"
			  "far) address=10.0.0.2 ;;\n"
			  "silent) exec cat ;;\n"
			  "relay) sh -c \"$*\"; exit $? ;;\n"
			  "lost) sh -c \"$*\"; exit 255 ;;\n"
			  "esac\n"
			  "SSH_CONNECTION=\"- - $address 22\" exec sh -c \"$*\"\n";

static char folder[64];

static void make_ssh(void)
{
	char path[4096], file[96];
	int fd;

	snprintf(folder, sizeof(folder), "/tmp/rondo-ssh-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(file, sizeof(file), "%s/ssh", folder);
	fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	cr_assert_eq(write(fd, ssh, strlen(ssh)), (ssize_t)strlen(ssh));
	close(fd);
	snprintf(path, sizeof(path), "%s:%s", folder, getenv("PATH"));
	setenv("PATH", path, 1);
	setenv("OMP_NUM_THREADS", "1", 1);
}

static void remove_ssh(void)
{
	char file[96];

	snprintf(file, sizeof(file), "%s/ssh", folder);
	unlink(file);
	rmdir(folder);
}

TestSuite(run_front, .init = make_ssh, .fini = remove_ssh, .timeout = 60);

static const char *master_port(void)
{
	static char text[16];

	snprintf(text, sizeof(text), "%d", free_port());
	return text;
}

Test(run_front, a_host_may_print_as_it_opens)
{
	struct program run = program_files();
	char *text;

	program_run(&run, RONDO_TOOL, "--hosts", "a:1,noisy:2", "--master-port", master_port(),
		SH("echo $RANK $WORLD_SIZE $GROUP_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR"), NULL);
	cr_assert_eq(run.status, 0);
	text = file_text(run.out);
	cr_assert_eq(count_lines(text, "0 3 0 1 127.0.0.1"), 1, "%s", text);
	cr_assert_eq(count_lines(text, "1 3 1 2 127.0.0.1"), 1, "%s", text);
	cr_assert_eq(count_lines(text, "2 3 1 2 127.0.0.1"), 1, "%s", text);
	cr_assert_null(strstr(text, "welcome"), "%s", text);
	cr_assert_eq(lseek(run.err, 0, SEEK_END), 0);
}

/* Ranks of hosts with one name would look for each other's memory. */
Test(run_front, the_name_of_this_host_is_no_other_host_s)
{
	struct program run = program_files();
	char *text;

	setenv("RONDO_HOST", "front", 1);
	program_run(&run, RONDO_TOOL, "--hosts", "a,b", "--master-port", master_port(),
		SH("echo host $RONDO_HOST"), NULL);
	text = file_text(run.out);
	cr_expect_eq(count_lines(text, "host"), 2, "%s", text);
}

Test(run_front, a_check_runs_on_each_host)
{
	struct program run = program_files();

	program_run(&run, RONDO_TOOL, "--check", "--hosts", "a:4,b:2", "--master-port",
		master_port(), NULL);
	assert_contains(run.out, "\nok    route          ");
}

static void refuse(const char *hosts, const char *line)
{
	struct program run = program_files();
	char *text;

	program_run(&run, RONDO_TOOL, "--hosts", hosts, SH("echo ran"), NULL);
	cr_assert_eq(run.status, 1);
	text = file_text(run.err);
	cr_assert_str_eq(text, line);
	cr_assert_eq(lseek(run.out, 0, SEEK_END), 0, "a rank ran");
}

Test(run_front, hosts_that_do_not_fit_are_one_line_and_nothing_starts)
{
	refuse("a,refused", "rondo-run: host refused: ssh: refused\n");
	refuse("a,old", "rondo-run: host old has rondo-run 0.0.1, and this is 0.1.0\n");
	refuse("a,far",
		"rondo-run: host a answers at 127.0.0.1, where host far does not reach it: give "
		"its name, or --master-addr\n");
	setenv("PATH", "/no/way", 1);
	refuse("a", "rondo-run: cannot start ssh for host a: No such file or directory\n");
}

Test(run_front, an_exit_status_of_255_is_the_ranks_own)
{
	struct program run = program_files();
	char *text;

	program_run(&run, RONDO_TOOL, "--hosts", "a", SH("exit 255"), NULL);
	cr_assert_eq(run.status, 255);
	text = file_text(run.err);
	cr_assert_null(strstr(text, "lost"), "%s", text);
}

Test(run_front, the_exit_status_255_of_ssh_is_a_lost_connection)
{
	struct program run = program_files();

	program_run(&run, RONDO_TOOL, "--hosts", "lost", "true", NULL);
	cr_assert_eq(run.status, 1);
	assert_contains(run.err, "rondo-run: host lost: the connection of ssh is lost\n");
}

Test(run_front, a_signal_ends_a_job_that_still_opens)
{
	struct program run = program_files();

	/* The front waits for an answer that does not come. */
	program_start(&run, RONDO_TOOL, "--hosts", "silent", "true", NULL);
	while (child_of(run.pid) == 0)
		;
	kill(run.pid, SIGTERM);
	program_finish(&run);
	cr_assert_eq(run.status, 128 + SIGTERM);
}

Test(run_front, a_second_signal_does_not_wait_for_the_grace)
{
	struct program run = program_files();
	int out = pipe_from(&run.out);
	struct pollfd ends[2];

	program_start(&run, RONDO_TOOL, "--hosts", "a,b", "--grace", "1000", "--master-port",
		master_port(), SH("trap '' TERM; echo $$; while :; do sleep 1000; done"), NULL);
	watch_processes(out, ends, 2);
	program_press(&run, SIGTERM);
	cr_assert(all_end(ends, 2), "a process is left");
	cr_assert_eq(run.status, 128 + SIGTERM);
}

/* As systemctl stop sends one to each process: the front passes its own on. */
Test(run_front, a_signal_to_ssh_has_no_effect)
{
	struct program run = program_files();
	int out = pipe_from(&run.out), go = pipe_to_fd_8();
	char line[64];

	program_start(&run, RONDO_TOOL, "--hosts", "relay", SH("echo here; read go <&8"), NULL);
	read_line(out, line, sizeof(line));
	kill(child_of(run.pid), SIGTERM);
	cr_assert_eq(write(go, "\n", 1), 1);
	program_finish(&run);
	cr_assert_eq(run.status, 0);
}

/* ---- The secret ----------------------------------------------------------------------------- */

/* Larger ranges are of sanitizers: no program has written all of them. */
#define RANGE_MAX ((size_t)1 << 30)

/* How often these bytes are in the writable memory of a process. */
static int count_copies(pid_t pid, const char *bytes, size_t size)
{
	char name[32], line[512], mode[8], *memory;
	unsigned long from, to;
	int fd, count = 0;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	maps = fopen(name, "r");
	snprintf(name, sizeof(name), "/proc/%d/mem", (int)pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	cr_assert(maps && fd >= 0, "%s", name);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) != 3 || mode[1] != 'w' ||
			to - from > RANGE_MAX)
			continue;
		memory = malloc(to - from);
		ssize_t got = pread(fd, memory, to - from, (off_t)from);

		for (char *at = memory;
			got > 0 && (at = memmem(at, (size_t)(memory + got - at), bytes, size));
			at++)
			count++;
		free(memory);
	}
	fclose(maps);
	close(fd);
	return count;
}

static pid_t parent_of(pid_t pid)
{
	char name[32], line[128];
	int parent = 0;
	FILE *status;

	snprintf(name, sizeof(name), "/proc/%d/status", (int)pid);
	status = fopen(name, "r");
	cr_assert(status);
	while (parent == 0 && fgets(line, sizeof(line), status))
		sscanf(line, "PPid: %d", &parent);
	fclose(status);
	return parent;
}

/* A rank reads the secret, and its agent, the agent's guard and the front run on. A job of one host
   has another secret than the front. */
Test(run_front, no_process_of_rondo_run_keeps_the_text_of_the_secret)
{
	struct program run = program_files();
	char file[96], script[512], line[64], secret[128] = "";
	pid_t agent;
	FILE *in;
	int out;

	snprintf(file, sizeof(file), "%s/secret", folder);
	snprintf(script, sizeof(script),
		"[ $RANK = 1 ] || { (umask 077; cat /proc/self/fd/$RONDO_SECRET_FD >%s);"
		"echo $PPID; }; exec sleep 60",
		file);
	out = pipe_from(&run.out);
	program_start(&run, RONDO_TOOL, "--hosts", "a:1,b:1", "--master-port", master_port(),
		SH(script), NULL);
	read_line(out, line, sizeof(line));
	agent = atoi(line);
	in = fopen(file, "r");
	cr_assert(in && fscanf(in, "%64s", secret) == 1 && strlen(secret) == 64, "%s", secret);
	fclose(in);
	unlink(file);
	cr_expect_geq(count_copies(getpid(), secret, 64), 1, "this process has one");
	cr_expect_eq(count_copies(run.pid, secret, 64), 0, "the front");
	cr_expect_eq(count_copies(agent, secret, 64), 0, "the agent");
	cr_expect_eq(count_copies(parent_of(agent), secret, 64), 0, "the guard");
	kill(run.pid, SIGTERM);
	program_finish(&run);
	close(out);
}

/* ---- Lists of hosts -------------------------------------------------------------------------- */

/* rondo-run: the list of --hosts. */

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
