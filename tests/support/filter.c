#include "filter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

/* Below 0: there are no filters. Else 0, or the descriptor that the flags ask for. */
static long filter(unsigned call, unsigned result, unsigned flags)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, result),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(steps) / sizeof(steps[0]), steps };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

bool forbid(unsigned call, unsigned error)
{
	return filter(call, SECCOMP_RET_ERRNO | error, 0) == 0;
}

bool forbid_in_all_threads(unsigned call, unsigned error)
{
	return filter(call, SECCOMP_RET_ERRNO | error, SECCOMP_FILTER_FLAG_TSYNC) == 0;
}

/* ---- Watching -------------------------------------------------------------------------------- */

static struct {
	int fd;
	sem_t opened;
	int (*before)(const struct watched_call *call);
} watch;

static void *serve(void *argument)
{
	while (sem_wait(&watch.opened))
		;
	for (;;) {
		struct seccomp_notif asked = { 0 };
		struct seccomp_notif_resp answer = { 0 };
		struct watched_call call;

		/* It has gone again where its process was killed. */
		if (ioctl(watch.fd, SECCOMP_IOCTL_NOTIF_RECV, &asked))
			continue;
		call.thread = (int)asked.pid;
		for (int i = 0; i < 6; i++)
			call.arguments[i] = asked.data.args[i];
		answer.id = asked.id;
		answer.error = -watch.before(&call);
		answer.flags = answer.error ? 0 : SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		ioctl(watch.fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	return argument;
}

static bool start_watching(
	unsigned call, int (*before)(const struct watched_call *call), unsigned flags)
{
	pthread_t thread;

	watch.before = before;
	sem_init(&watch.opened, 0, 0);
	if (pthread_create(&thread, NULL, serve, NULL))
		return false;
	pthread_detach(thread);
	watch.fd =
		(int)filter(call, SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER | flags);
	if (watch.fd >= 0)
		sem_post(&watch.opened);
	return watch.fd >= 0;
}

bool watch_calls(unsigned call, int (*before)(const struct watched_call *call))
{
	return start_watching(call, before, 0);
}

bool watch_calls_in_all_threads(unsigned call, int (*before)(const struct watched_call *call))
{
	return start_watching(
		call, before, SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH);
}

void watched_text(
	const struct watched_call *call, unsigned long long address, char *text, size_t size)
{
	struct iovec here = { text, size - 1 }, there = { (void *)(uintptr_t)address, size - 1 };
	size_t page = (size_t)sysconf(_SC_PAGESIZE), left = page - (size_t)address % page;

	/* The next page may be unreadable. */
	if (there.iov_len > left)
		here.iov_len = there.iov_len = left;
	memset(text, 0, size);
	process_vm_readv(call->thread, &here, 1, &there, 1, 0);
}
