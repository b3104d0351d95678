#include "train/data/content.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>

#include "train/base/fail.h"

/* The most bytes that a gzip file may unpack to: it has to fit in memory. */
#define INFLATED_MAX ((size_t)1 << 30)
#define INFLATE_STEP ((size_t)1 << 20)

/* ---- Mapped files ---- */

/* The mapped files, for the handler of SIGBUS. It takes no lock. */
#define MAPPED_MAX 4096
static _Atomic(struct content *) mapped[MAPPED_MAX];
static struct sigaction other_handler; /* of a SIGBUS elsewhere */
static size_t page_size;

/* Puts zero pages from here to the end. The system call itself is safe in a handler, and
   ThreadSanitizer takes it for no write: other threads may read there. */
static bool replace_pages(const struct content *content, size_t offset)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, before = errno;
	long page = syscall(
		SYS_mmap, content->bytes + offset, content->size - offset, PROT_READ, flags, -1, 0);
	errno = before;
	return page == (long)(content->bytes + offset);
}

/* Only a thread's own access gets here, while the content is open. */
static void handle_lost_pages(int signal, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;
	(void)context;
	for (int i = 0; i < MAPPED_MAX; i++) {
		struct content *content = atomic_load(&mapped[i]);
		uintptr_t start = content ? (uintptr_t)content->bytes : 0;
		if (!content || at < start || at >= start + content->size)
			continue;
		size_t offset = (at - start) / page_size * page_size, none = 0;
		if (replace_pages(content, offset)) {
			atomic_compare_exchange_strong(&content->lost, &none, offset + 1);
			return;
		}
	}
	/* The access repeats, and has the usual end. */
	sigaction(signal, &other_handler, NULL);
}

static void install_handler(void)
{
	struct sigaction action = { .sa_sigaction = handle_lost_pages, .sa_flags = SA_SIGINFO };
	page_size = sysconf(_SC_PAGESIZE);
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, &other_handler);
}

static int map(struct content *content, int file, size_t size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, install_handler);
	void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
	if (bytes == MAP_FAILED)
		return fail("%s: cannot be mapped: %s", content->path, strerror(errno));
	content->bytes = bytes;
	content->size = size;
	for (int i = 0; i < MAPPED_MAX; i++) {
		struct content *none = NULL;
		if (atomic_compare_exchange_strong(&mapped[i], &none, content))
			return 0;
	}
	return fail("%s: %d files are mapped already", content->path, MAPPED_MAX);
}

static void unmap(struct content *content)
{
	for (int i = 0; i < MAPPED_MAX; i++) {
		struct content *found = content;
		atomic_compare_exchange_strong(&mapped[i], &found, NULL);
	}
	munmap((void *)content->bytes, content->size);
}

/* ---- Gzip files ---- */

/* A failure of gzread(). */
static int fail_inflate(gzFile file, const char *path)
{
	int error = 0;
	gzerror(file, &error);
	if (error == Z_ERRNO)
		return fail(
			"%s: %s, at byte %lld", path, strerror(errno), (long long)gzoffset(file));
	if (error == Z_BUF_ERROR)
		return fail("%s: its compressed data ends too early, at byte %lld (unpacked)", path,
			(long long)gztell(file));
	return fail("%s: its compressed data is damaged, at byte %lld", path,
		(long long)gzoffset(file));
}

/* Reads to the end. zlib checks the checksum there. */
static int inflate_all(gzFile file, const char *path, uint8_t **bytes, size_t *size)
{
	size_t room = 0;
	*size = 0;
	for (;;) {
		if (room - *size < INFLATE_STEP) {
			room = 2 * room + INFLATE_STEP;
			uint8_t *more = realloc(*bytes, room);
			if (!more)
				return fail("%s: out of memory for %zu bytes", path, room);
			*bytes = more;
		}
		int got = gzread(file, *bytes + *size, INFLATE_STEP);
		if (got <= 0)
			return got < 0 ? fail_inflate(file, path) : 0;
		*size += got;
		if (*size > INFLATED_MAX)
			return fail("%s: unpacks to more than %zu bytes: a file unpacked with gzip "
				    "-d takes no memory",
				path, INFLATED_MAX);
	}
}

static int inflate_file(struct content *content, int descriptor)
{
	uint8_t *bytes = NULL, *fitting;
	size_t size;
	gzFile file = gzdopen(dup(descriptor), "rb");
	if (!file)
		return fail("%s: %s", content->path, strerror(errno ? errno : ENOMEM));
	gzbuffer(file, 1 << 17);
	int err = inflate_all(file, content->path, &bytes, &size);
	/* Z_BUF_ERROR: the file ends within a stream or its trailer. */
	if (gzclose_r(file) != Z_OK && !err)
		err = fail("%s: its compressed data ends too early, at byte %zu (unpacked)",
			content->path, size);
	/* Exactly its size, so that a sanitizer finds each access beyond it. */
	fitting = err ? NULL : realloc(bytes, size ? size : 1);
	if (err) {
		free(bytes);
		return err;
	}
	content->bytes = fitting ? fitting : bytes;
	content->size = size;
	content->inflated = true;
	return 0;
}

/* ---- All files ---- */

static int read_file(struct content *content, int file)
{
	static const uint8_t magic[2] = { 0x1f, 0x8b };
	uint8_t start[2] = { 0 };
	struct stat about;
	size_t length = strlen(content->path);
	bool named = length > 3 && !strcmp(content->path + length - 3, ".gz");
	if (fstat(file, &about))
		return fail("%s: %s", content->path, strerror(errno));
	if (!S_ISREG(about.st_mode))
		return fail("%s: is not a regular file", content->path);
	ssize_t got = pread(file, start, sizeof(start), 0);
	if (got < 0)
		return fail("%s: %s, at byte 0", content->path, strerror(errno));
	if (got == sizeof(start) && !memcmp(start, magic, sizeof(magic)))
		return inflate_file(content, file);
	if (named && got < (ssize_t)sizeof(start))
		return fail(
			"%s: its compressed data ends too early, at byte %zd", content->path, got);
	if (named)
		return fail("%s: is not a gzip file: it begins with %02x %02x, at byte 0",
			content->path, start[0], start[1]);
	return about.st_size ? map(content, file, about.st_size) : 0;
}

int content_open(struct content *content, const char *path)
{
	memset(content, 0, sizeof(*content));
	content->path = strdup(path);
	if (!content->path)
		return fail("out of memory");
	/* Without O_NONBLOCK a FIFO would wait for a writer. */
	int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	int err = file < 0 ? fail("%s: %s", path, strerror(errno)) : read_file(content, file);
	if (file >= 0)
		close(file);
	if (err)
		content_close(content);
	return err;
}

void content_close(struct content *content)
{
	if (content->inflated)
		free((void *)content->bytes);
	else if (content->bytes)
		unmap(content);
	free(content->path);
	memset(content, 0, sizeof(*content));
}

int content_check(const struct content *content)
{
	size_t lost = atomic_load(&content->lost);
	return lost ? fail("%s: was cut off while it was read, at byte %zu", content->path,
			      lost - 1)
		    : 0;
}

const char *content_unit(const struct content *content)
{
	return content->inflated ? " (unpacked)" : "";
}
