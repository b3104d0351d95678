#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/host_name.h"

#define LINE_SIZE 1024
#define ALL_SUBSYSTEMS ((1u << RD_SUBSYSTEM_COUNT) - 1)

/* Level and subsystems in one word, so that the check is one load: the level is the low two bits.
 */
#define PACK(level, subsystems) ((unsigned)(level) | (subsystems) << 2)

static atomic_uint enabled = PACK(RD_WARN, ALL_SUBSYSTEMS);
static _Thread_local int thread_rank = -1;

static const char *const level_names[] = { "NONE", "WARN", "INFO", "TRACE" };
#define SUBSYSTEM_NAME(name, text) text,
static const char *const subsystem_names[] = { RD_SUBSYSTEMS(SUBSYSTEM_NAME) };
#undef SUBSYSTEM_NAME

void rd_log_set(enum rd_log_level level, unsigned subsystems)
{
	atomic_store_explicit(
		&enabled, PACK(level, subsystems & ALL_SUBSYSTEMS), memory_order_relaxed);
}

void rd_log_rank(int rank)
{
	thread_rank = rank;
}

/* ---- Files --------------------------------------------------------------------------------- */

enum { OPENING = -1 };

/* An open file, for the lines of a process (a forked one opens its own) and a rank. */
struct file {
	struct file *next;
	pid_t pid;
	int rank; /* -1: all ranks, or none */
	_Atomic int fd;
};

/* A name from RONDO_DEBUG_FILE, and its files. Never freed: other threads may write to them. */
struct target {
	struct target *next;
	_Atomic(struct file *) files;
	bool by_rank;
	char name[];
};

static _Atomic(struct target *) targets; /* every one since the start */
static _Atomic(struct target *) target; /* the present one; NULL: stderr */

/* RONDO_HOST, as it was when the latest comm was made: lines are written while the program may
   change its environment. Empty: the host's own name. */
static _Atomic char given_host[RD_HOST_NAME_SIZE];

static void read_given_host(void)
{
	char name[RD_HOST_NAME_SIZE] = "";

	if (rd_environment("RONDO_HOST"))
		rd_host_name(name);
	for (int i = 0; i < RD_HOST_NAME_SIZE; i++)
		atomic_store_explicit(&given_host[i], name[i], memory_order_relaxed);
}

static void write_host(char host[RD_HOST_NAME_SIZE])
{
	for (int i = 0; i < RD_HOST_NAME_SIZE; i++)
		host[i] = atomic_load_explicit(&given_host[i], memory_order_relaxed);
	if (host[0])
		return;
	if (gethostname(host, RD_HOST_NAME_SIZE - 1) != 0)
		strcpy(host, "?");
	host[strcspn(host, ".")] = '\0';
}

/* Writes "host:pid:tid [rank] RONDO INFO "; returns its length. */
static size_t write_head(char *line, enum rd_log_level level)
{
	char host[RD_HOST_NAME_SIZE];
	char rank[16] = "";

	write_host(host);
	if (thread_rank >= 0)
		snprintf(rank, sizeof(rank), "[%d] ", thread_rank);
	return (size_t)snprintf(line, LINE_SIZE, "%s:%d:%d %sRONDO %s ", host, getpid(),
		(int)syscall(SYS_gettid), rank, level_names[level]);
}

/* ---- Standard error ------------------------------------------------------------------------ */

enum { UNKNOWN, CLOSED }; /* of no file */

/* The file that was standard error when the latest comm was made. */
static _Atomic uint64_t own_stderr = UNKNOWN;

static uint64_t find_stderr(void)
{
	struct stat file;
	uint64_t hash;

	if (fstat(STDERR_FILENO, &file) != 0)
		return CLOSED;
	hash = rd_hash(RD_HASH_INIT, &file.st_dev, sizeof(file.st_dev));
	return rd_hash(hash, &file.st_ino, sizeof(file.st_ino)) | 2;
}

/* A program may close it, and get its number for a socket or a file of its own. */
static bool has_stderr(void)
{
	uint64_t own = atomic_load(&own_stderr);

	return own == UNKNOWN || (own != CLOSED && own == find_stderr());
}

/* write(2), but for the SIGPIPE of a pipe whose reader has gone: a log line must not end the
   program. */
static void write_quietly(int fd, const char *line, size_t length)
{
	const struct timespec now = { 0, 0 };
	sigset_t set, before, pending;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, &before);
	sigpending(&pending);
	while (write(fd, line, length) < 0 && errno == EINTR)
		;
	if (!sigismember(&pending, SIGPIPE))
		sigtimedwait(&set, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void write_line(int fd, char line[LINE_SIZE])
{
	size_t length = strlen(line);

	if (fd == STDERR_FILENO && !has_stderr())
		return;
	line[length++] = '\n'; /* where the terminator was */
	write_quietly(fd, line, length);
}

/* ---- Names of files ------------------------------------------------------------------------ */

/* Returns the text for a letter after %; NULL: none. */
static const char *meaning(char letter, char text[RD_HOST_NAME_SIZE])
{
	switch (letter) {
	case 'h':
		write_host(text);
		/* A name that was given may hold any. */
		for (char *slash; (slash = strchr(text, '/'));)
			*slash = '_';
		return text;
	case 'p':
		snprintf(text, RD_HOST_NAME_SIZE, "%d", getpid());
		return text;
	case 'r':
		snprintf(text, RD_HOST_NAME_SIZE, thread_rank < 0 ? "-" : "%d", thread_rank);
		return text;
	case '%':
		return "%";
	}
	return NULL;
}

void rd_log_file_name(char path[RD_LOG_PATH_SIZE], const char *name)
{
	size_t used = 0;

	for (; *name && used < RD_LOG_PATH_SIZE - 1; name++) {
		char text[RD_HOST_NAME_SIZE], plain[2] = { *name };
		const char *part = *name == '%' ? meaning(name[1], text) : NULL;

		name += part != NULL;
		used += (size_t)snprintf(
			path + used, RD_LOG_PATH_SIZE - used, "%s", part ? part : plain);
	}
	path[used < RD_LOG_PATH_SIZE ? used : RD_LOG_PATH_SIZE - 1] = '\0';
}

static int open_file(const char *name)
{
	char path[RD_LOG_PATH_SIZE], line[LINE_SIZE];
	int fd;

	rd_log_file_name(path, name);
	fd = rd_open(path, O_WRONLY | O_CREAT | O_APPEND);
	/* A pipe that is full loses lines: its reader must not hold a rank up. */
	if (fd >= 0) {
		fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK);
		return fd;
	}

	int error = errno;
	size_t head = write_head(line, RD_WARN);

	snprintf(line + head, sizeof(line) - head,
		"RONDO_DEBUG_FILE: cannot open %.512s: %s: the log goes to standard error", path,
		strerror(error));
	write_line(STDERR_FILENO, line);
	return STDERR_FILENO;
}

static struct file *find_file(struct file *at, pid_t pid, int rank)
{
	while (at && (at->pid != pid || at->rank != rank))
		at = at->next;
	return at;
}

/* Returns the file of this thread's lines, and opens it at the first. NULL: no memory. */
static struct file *file_of(struct target *to)
{
	int rank = to->by_rank ? thread_rank : -1;
	struct file *head = atomic_load(&to->files), *found, *own;

	found = find_file(head, getpid(), rank);
	if (found)
		return found;
	own = calloc(1, sizeof(*own));
	if (!own)
		return NULL;
	own->pid = getpid();
	own->rank = rank;
	atomic_init(&own->fd, OPENING);
	do {
		found = find_file(head, own->pid, rank);
		own->next = head;
	} while (!found && !atomic_compare_exchange_weak(&to->files, &head, own));
	if (found) {
		free(own);
		return found;
	}
	atomic_store(&own->fd, open_file(to->name));
	return own;
}

static int log_fd(void)
{
	struct target *to = atomic_load(&target);
	struct file *file = to ? file_of(to) : NULL;
	int fd = STDERR_FILENO;

	while (file && (fd = atomic_load(&file->fd)) == OPENING)
		sched_yield();
	return fd;
}

static struct target *find_target(struct target *at, const char *name)
{
	while (at && strcmp(at->name, name) != 0)
		at = at->next;
	return at;
}

static struct target *add_target(const char *name)
{
	struct target *own = calloc(1, sizeof(*own) + strlen(name) + 1), *found, *head;

	if (!own)
		return NULL;
	strcpy(own->name, name);
	own->by_rank = strstr(name, "%r") != NULL;
	head = atomic_load(&targets);
	do {
		found = find_target(head, name);
		own->next = head;
	} while (!found && !atomic_compare_exchange_weak(&targets, &head, own));
	if (found)
		free(own);
	return found ? found : own;
}

void rd_log_to(const char *name)
{
	struct target *found = *name ? find_target(atomic_load(&targets), name) : NULL;

	read_given_host();
	atomic_store(&own_stderr, find_stderr());
	atomic_store(&target, *name && !found ? add_target(name) : found);
	/* Opens the file now, so that a failure is reported at once. */
	log_fd();
}

/* ---- Settings ------------------------------------------------------------------------------ */

/* Not strncasecmp(): the same text must mean the same in every locale. */
static bool same_name(const char *text, size_t length, const char *name)
{
	if (strlen(name) != length)
		return false;
	for (size_t i = 0; i < length; i++) {
		char c = text[i];
		if (c >= 'a' && c <= 'z')
			c -= 'a' - 'A';
		if (c != name[i])
			return false;
	}
	return true;
}

int rd_log_read_level(enum rd_log_level *level, const char *text)
{
	for (int i = RD_LOG_NONE; i <= RD_TRACE; i++) {
		if (same_name(text, strlen(text), level_names[i])) {
			*level = (enum rd_log_level)i;
			return 0;
		}
	}
	return rd_fail(RONDO_SETTING,
		"RONDO_DEBUG is \"%.40s\": give one of NONE, WARN, INFO and TRACE", text);
}

/* Returns the bits of one subsystem, or of ALL; 0 for another name. */
static unsigned subsystem_bits(const char *text, size_t length)
{
	if (same_name(text, length, "ALL"))
		return ALL_SUBSYSTEMS;
	for (int i = 0; i < RD_SUBSYSTEM_COUNT; i++)
		if (same_name(text, length, subsystem_names[i]))
			return 1u << i;
	return 0;
}

#define SUBSYSTEM_LIST(name, text) " " text

int rd_log_read_subsystems(unsigned *subsystems, const char *text)
{
	/* A list whose first name is excluded starts from all subsystems. */
	unsigned found = text[0] == '^' ? ALL_SUBSYSTEMS : 0;

	for (const char *name = text;;) {
		bool out = name[0] == '^';
		name += out;
		size_t length = strcspn(name, ",");
		unsigned bits = subsystem_bits(name, length);
		if (!bits)
			return rd_fail(RONDO_SETTING,
				"RONDO_DEBUG_SUBSYS names \"%.*s\": give ALL or, with commas, some "
				"of" RD_SUBSYSTEMS(SUBSYSTEM_LIST),
				length < 40 ? (int)length : 40, name);
		found = out ? found & ~bits : found | bits;
		if (!name[length])
			break;
		name += length + 1;
	}
	*subsystems = found;
	return 0;
}

bool rd_log_on(enum rd_log_level level, enum rd_subsystem subsystem)
{
	unsigned now = atomic_load_explicit(&enabled, memory_order_relaxed);

	return level <= (now & 3) && (level == RD_WARN || now >> 2 >> subsystem & 1);
}

void rd_log(enum rd_log_level level, enum rd_subsystem subsystem, const char *format, ...)
{
	if (!rd_log_on(level, subsystem))
		return;

	int saved = errno;
	char line[LINE_SIZE];
	size_t head = write_head(line, level);
	va_list args;

	va_start(args, format);
	errno = saved; /* for %m */
	vsnprintf(line + head, sizeof(line) - head, format, args);
	va_end(args);

	write_line(log_fd(), line);
	errno = saved;
}
