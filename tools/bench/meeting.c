#include "meeting.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agree.h"
#include "base/clock.h"

/* Rank 0's memory, as others find it. As doubles, which are exact up to 2^53. */
enum { PID, FD, TOKEN, PARTS };

static struct bench_meeting *map(int fd)
{
	void *meeting = MAP_FAILED;

	if (fd >= 0)
		meeting = mmap(NULL, sizeof(struct bench_meeting), PROT_READ | PROT_WRITE,
			MAP_SHARED, fd, 0);
	return meeting == MAP_FAILED ? NULL : meeting;
}

static struct bench_meeting *make(int *fd, double parts[PARTS])
{
	struct bench_meeting *meeting = NULL;

	*fd = memfd_create("rondo-bench", MFD_CLOEXEC);
	if (*fd >= 0 && ftruncate(*fd, sizeof(*meeting)) == 0)
		meeting = map(*fd);
	parts[PID] = getpid();
	parts[FD] = *fd;
	parts[TOKEN] = (double)rd_clock_ns();
	if (meeting)
		atomic_store(&meeting->token, (uint64_t)parts[TOKEN]);
	return meeting;
}

/* On another host the number is another process's, or none's, and the token is not there. */
static struct bench_meeting *find(const double parts[PARTS])
{
	struct bench_meeting *meeting = NULL;
	uint64_t token = 0;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)parts[PID], (int)parts[FD]);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (pread(fd, &token, sizeof(token), offsetof(struct bench_meeting, token)) ==
			sizeof(token) &&
		token == (uint64_t)parts[TOKEN])
		meeting = map(fd);
	close(fd);
	return meeting;
}

int bench_meeting_open(rondo_comm *comm, struct bench_meeting **meeting)
{
	double parts[PARTS] = { 0 }, found;
	int own = -1, err;

	*meeting = rondo_comm_rank(comm) == 0 ? make(&own, parts) : NULL;
	err = bench_agree_on_first(comm, parts, PARTS);
	if (!err && rondo_comm_rank(comm) > 0)
		*meeting = find(parts);
	found = *meeting != NULL;
	if (!err)
		err = bench_agree(comm, &found, 1, RONDO_MIN);
	if (own >= 0)
		close(own);
	if (err || found == 0) {
		bench_meeting_close(*meeting);
		*meeting = NULL;
	}
	return err;
}

void bench_meeting_close(struct bench_meeting *meeting)
{
	if (meeting)
		munmap(meeting, sizeof(*meeting));
}
