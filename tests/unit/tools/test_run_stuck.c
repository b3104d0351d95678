/* A rank that the kernel cannot end, in state D: it reads from a file system that does not answer,
   as from a server of NFS that is down. Here FUSE is that, with this process as its server. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define LIMIT_MS 20000
#define SH(script) "sh", "-c", script

static char folder[] = "/tmp/rondo-stuck-XXXXXX";

/* Mounts at `folder`, seen by this process and its children alone. Returns the server's side. */
static int mount_mute(void)
{
	char options[64];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (fd < 0 || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		mount("mute", folder, "fuse", MS_NOSUID | MS_NODEV, options)) {
		int error = errno;

		rmdir(folder);
		cr_skip_test("no FUSE here: %s", strerror(error));
	}
	return fd;
}

/* Takes the next request, and returns its code. */
static uint32_t take_request(int fd, struct fuse_in_header *head)
{
	/* The least that a server may offer to read. */
	static char bytes[FUSE_MIN_READ_BUFFER];
	struct pollfd request = { fd, POLLIN, 0 };

	cr_assert_eq(poll(&request, 1, LIMIT_MS), 1, "no request");
	cr_assert_geq(read(fd, bytes, sizeof(bytes)), (ssize_t)sizeof(*head));
	memcpy(head, bytes, sizeof(*head));
	return head->opcode;
}

static void answer_init(int fd)
{
	struct fuse_in_header head;
	struct {
		struct fuse_out_header head;
		struct fuse_init_out init;
	} answer = { .init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096 } };

	cr_assert_eq(take_request(fd, &head), FUSE_INIT);
	answer.head = (struct fuse_out_header){ sizeof(answer), 0, head.unique };
	cr_assert_eq(write(fd, &answer, sizeof(answer)), (ssize_t)sizeof(answer));
}

static char state_of(pid_t pid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "r");
	if (file && fscanf(file, "%*[^)]) %c", &state) != 1)
		state = 0;
	if (file)
		fclose(file);
	return state;
}

Test(run_stuck, a_rank_in_state_d_is_named_and_left, .timeout = 60)
{
	struct program run = program_files();
	struct fuse_in_header head;
	char line[64], wanted[128];
	int fd, out, go;
	pid_t rank;

	cr_assert_not_null(mkdtemp(folder));
	fd = mount_mute();
	answer_init(fd);
	/* The rank's next parent. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	out = pipe_from(&run.out);
	go = pipe_to_fd_8();
	setenv("STUCK", folder, 1);
	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2", "--grace", "1",
		"--local-ranks-filter", "1",
		SH("[ $RANK = 0 ] || { echo $$; exec cat $STUCK/file; }; read go <&8; exit 3"),
		NULL);
	read_line(out, line, sizeof(line));
	rank = atoi(line);
	take_request(fd, &head);
	cr_assert_eq(write(go, "\n", 1), 1);
	program_finish(&run);
	cr_expect_eq(state_of(rank), 'D');
	cr_expect_eq(run.status, 3);
	snprintf(wanted, sizeof(wanted),
		"rondo-run: rank 1 (pid %d) does not end 10 s after SIGKILL: leaving it\n", rank);
	assert_contains(run.err, wanted);
	/* This ends its request, and so the rank. */
	close(fd);
	cr_expect_eq(waitpid(rank, NULL, 0), rank);
	umount2(folder, MNT_DETACH);
	rmdir(folder);
}
