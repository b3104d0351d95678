#include "control_ranks.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "topo/place.h"
#include "free_port.h"

struct control_rank ranks[RANKS_MAX];
pthread_barrier_t together;

void control_prepare_rank(struct control_rank *rank, int number, int size, int port,
	int (*script)(struct control_rank *))
{
	memset(rank, 0, sizeof(*rank));
	rank->rank = number;
	rank->script = script;
	rank->size = size;
	rank->settings.rank = number;
	rank->settings.topo_file = rank->settings.host = rank->settings.algo = "";
	rank->settings.size = size;
	strcpy(rank->settings.address, "127.0.0.1");
	rank->settings.port = port;
	rank->settings.rendezvous_fd = -1;
	rank->settings.channels = 1;
	rank->settings.piece_size = 4096;
	rank->settings.timeout_ms = 10000;
	rank->settings.heartbeat_timeout_ms = 10000;
	rank->settings.init_timeout_ms = 10000;
	rd_place_here(&rank->self.member.place, &rank->settings);
	strcpy(rank->self.cards[0].transport, "test");
	rank->self.cards[0].size = 1;
	rank->self.cards[0].bytes[0] = (unsigned char)(100 + number);
	rank->activity.collective = -1;
	rank->activity.waiting_for = -1;
}

int control_prepare(int size, int (*script)(struct control_rank *))
{
	int port = 0, fd = listen_somewhere(&port);

	cr_assert_geq(fd, 0);
	for (int i = 0; i < size; i++)
		control_prepare_rank(&ranks[i], i, size, port, script);
	ranks[0].settings.rendezvous_fd = fd;
	return port;
}

int control_keep_error(struct control_rank *rank, int error)
{
	if (error && !rank->error) {
		rank->error = error;
		snprintf(rank->reason, sizeof(rank->reason), "%s", rondo_last_error());
	}
	return error;
}

int control_join(struct control_rank *rank)
{
	struct rd_control_config config = { .settings = &rank->settings,
		.self = &rank->self,
		.activity = &rank->activity,
		.failed = &rank->failed };
	int error;

	rank->wake_fd = eventfd(0, EFD_CLOEXEC);
	config.wake_fd = rank->wake_fd;
	error = rd_control_create(&rank->control, &config);
	if (!error)
		rank->comm_id = rd_control_comm_id(rank->control)->number;
	return control_keep_error(rank, error);
}

int control_ready(struct control_rank *rank)
{
	struct rd_link_limits limits = { (uint64_t)(1000 - rank->rank), rank->rank != 1, 1,
		(uint32_t)(100 - rank->rank), 2 };
	int error = rd_control_ready(rank->control, 0, &limits);

	if (!error && limits.piece_size != (uint64_t)(1001 - rank->size))
		error = rd_fail(RONDO_INVALID, "pieces of %llu bytes",
			(unsigned long long)limits.piece_size);
	if (!error && (limits.near_rails != 1 || limits.far_rails != (uint32_t)(101 - rank->size)))
		error = rd_fail(RONDO_INVALID, "links over %u and %u rails", limits.near_rails,
			limits.far_rails);
	if (!error && limits.maps != (rank->size == 1))
		error = rd_fail(RONDO_INVALID, "links that map memory: %d", limits.maps);
	return error;
}

int control_join_and_open(struct control_rank *rank)
{
	int error = control_join(rank);

	return error ? error : control_keep_error(rank, control_ready(rank));
}

int control_leave(struct control_rank *rank)
{
	int error;

	rank->activity.digest = rank->digest;
	error = control_keep_error(rank, rd_control_finalize(rank->control));
	rank->control = NULL;
	return error;
}

static void *run_rank(void *argument)
{
	struct control_rank *rank = argument;

	rank->script(rank);
	rd_control_destroy(rank->control);
	rank->control = NULL;
	close(rank->wake_fd);
	return NULL;
}

void control_start(int from, int to)
{
	for (int i = from; i < to; i++)
		cr_assert_eq(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
}

void control_wait(int from, int to)
{
	for (int i = from; i < to; i++)
		pthread_join(ranks[i].thread, NULL);
}

void control_run(int size)
{
	pthread_barrier_init(&together, NULL, (unsigned)size);
	control_start(0, size);
	control_wait(0, size);
	pthread_barrier_destroy(&together);
}

void control_expect(int from, int to, int error, const char *part)
{
	for (int i = from; i < to; i++) {
		cr_expect_eq(ranks[i].error, error, "rank %d: %s: %s", i,
			rondo_error_name(ranks[i].error), ranks[i].reason);
		cr_expect(strstr(ranks[i].reason, part), "rank %d: \"%s\" lacks \"%s\"", i,
			ranks[i].reason, part);
		cr_expect_str_eq(ranks[i].reason, ranks[from].reason);
	}
}

int control_no_call(struct control_rank *rank)
{
	return control_join_and_open(rank) ? rank->error : control_leave(rank);
}

int control_connect(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	close(fd);
	return -1;
}

void control_await_verdict(struct control_rank *rank)
{
	uint64_t count;

	/* Other news write it, too. */
	while (!atomic_load(&rank->failed) &&
		read(rank->wake_fd, &count, sizeof(count)) == sizeof(count))
		;
	if (rd_control_verdict(rank->control) != atomic_load(&rank->failed))
		rank->error = 1;
	control_keep_error(rank, rd_control_verdict(rank->control));
}

/* PF_EXITING, as linux/sched.h has it: this thread ends. */
#define EXITING 0x4U

/*
 * pthread_join() returns when a thread has no more use of memory, and the kernel may list that
 * thread for a moment more. It bears this flag since before.
 */
static bool is_exiting(const char *task)
{
	char path[64], text[512] = "";
	unsigned flags = EXITING; /* of a thread that is gone by now */
	const char *name_end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", task);
	file = fopen(path, "r");
	if (!file)
		return true;
	if (fread(text, 1, sizeof(text) - 1, file) == 0)
		text[0] = '\0';
	fclose(file);
	name_end = strrchr(text, ')');
	if (name_end)
		sscanf(name_end, ") %*c %*d %*d %*d %*d %*d %u", &flags);
	return flags & EXITING;
}

int count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *task;
	int count = 0;

	while ((task = readdir(tasks)))
		count += task->d_name[0] != '.' && !is_exiting(task->d_name);
	closedir(tasks);
	return count;
}
