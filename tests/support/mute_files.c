#include "mute_files.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define LIMIT_MS 20000

/* Takes the next request. A process whose request is taken waits for the answer in state D. */
static struct fuse_in_header take_request(int fd)
{
	/* The least that a server may offer to read. */
	static char bytes[FUSE_MIN_READ_BUFFER];
	struct pollfd request = { fd, POLLIN, 0 };
	struct fuse_in_header head;

	if (poll(&request, 1, LIMIT_MS) != 1 ||
		read(fd, bytes, sizeof(bytes)) < (ssize_t)sizeof(head))
		abort();
	memcpy(&head, bytes, sizeof(head));
	return head;
}

static void answer_init(int fd)
{
	struct {
		struct fuse_out_header head;
		struct fuse_init_out init;
	} answer = { .init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096 } };

	answer.head = (struct fuse_out_header){ sizeof(answer), 0, take_request(fd).unique };
	cr_assert_eq(write(fd, &answer, sizeof(answer)), (ssize_t)sizeof(answer));
}

void mute_files_mount(struct mute_files *files)
{
	char folder[] = "/tmp/rondo-mute-XXXXXX", options[64];

	files->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", files->fd);
	cr_assert_not_null(mkdtemp(folder));
	snprintf(files->file, sizeof(files->file), "%s/file", folder);
	if (files->fd < 0 || unshare(CLONE_NEWNS) ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		mount("mute", folder, "fuse", MS_NOSUID | MS_NODEV, options)) {
		int error = errno;

		rmdir(folder);
		cr_skip_test("no FUSE here: %s", strerror(error));
	}
	answer_init(files->fd);
}

void mute_files_await(const struct mute_files *files)
{
	take_request(files->fd);
}

void mute_files_unmount(struct mute_files *files)
{
	char folder[sizeof(files->file)];

	close(files->fd);
	memcpy(folder, files->file, sizeof(folder));
	umount2(dirname(folder), MNT_DETACH);
	rmdir(folder);
}
