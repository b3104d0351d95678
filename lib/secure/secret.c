#include "secure/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "secure/tls.h"

/* Interval of looks for the file that rank 0 writes. */
#define LOOK_MS 20

struct secret {
	unsigned char bytes[RD_SECRET_MOST + 1];
	size_t size;
};

/* Not memset(), which the compiler may leave out before the memory is given back. */
static void forget(struct secret *secret)
{
	explicit_bzero(secret, sizeof(*secret));
}

/* ---- A new one ----------------------------------------------------------------------------- */

/* As text, which users may print and copy. */
static int draw(struct secret *secret)
{
	unsigned char bytes[32];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return rd_fail_errno("no random numbers for the job's secret");
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf((char *)secret->bytes + 2 * i, 3, "%02x", bytes[i]);
	secret->size = 2 * sizeof(bytes);
	secret->bytes[secret->size++] = '\n';
	explicit_bzero(bytes, sizeof(bytes));
	return 0;
}

/* 0, or -1 and errno. */
static int put(int fd, const struct secret *secret)
{
	ssize_t wrote = write(fd, secret->bytes, secret->size);

	if (wrote >= 0 && wrote != (ssize_t)secret->size)
		errno = ENOSPC;
	return wrote == (ssize_t)secret->size ? 0 : -1;
}

/* In memory that nobody can change. */
static int hold(int *fd, const struct secret *secret)
{
	int err = 0;

	*fd = rd_above_stderr(memfd_create("rondo-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (*fd < 0 || put(*fd, secret) ||
		fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) <
			0) {
		err = rd_fail_errno("no memory for the job's secret");
		if (*fd >= 0)
			close(*fd);
		*fd = -1;
	}
	return err;
}

int rd_secret_make(int *fd)
{
	struct secret secret;
	int err = draw(&secret);

	*fd = -1;
	if (!err)
		err = hold(fd, &secret);
	forget(&secret);
	return err;
}

int rd_secret_keep(int *fd, const char *bytes, size_t size)
{
	struct secret secret = { .size = size };
	int err;

	*fd = -1;
	if (size < RD_SECRET_LEAST || size > RD_SECRET_MOST)
		return rd_fail(RONDO_INVALID, "a secret of %zu bytes", size);
	memcpy(secret.bytes, bytes, size);
	err = hold(fd, &secret);
	forget(&secret);
	return err;
}

/* ---- The descriptor ------------------------------------------------------------------------ */

static int get(struct secret *secret, int fd)
{
	ssize_t got = pread(fd, secret->bytes, sizeof(secret->bytes), 0);

	secret->size = got > 0 ? (size_t)got : 0;
	return got < 0 ? -1 : 0;
}

/* As hold() made it. A number that a program has closed may lead to another file by now. */
static bool is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_WRITE;
}

/* Programs that this process starts have no use for it. */
static int read_descriptor(struct secret *secret, int fd)
{
	if (!is_sealed(fd) || get(secret, fd) || secret->size < RD_SECRET_LEAST ||
		secret->size > RD_SECRET_MOST)
		return rd_fail(RONDO_SETTING,
			"RONDO_SECRET_FD is %d, which holds no secret: a program between the "
			"launcher and this one has closed it; let it pass descriptors on, or set "
			"RONDO_SECRET_FILE in place of it",
			fd);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	return 0;
}

/* ---- The file ------------------------------------------------------------------------------ */

static int check_file(const char *path, int fd)
{
	struct stat status;

	if (fstat(fd, &status))
		return rd_fail_errno("RONDO_SECRET_FILE \"%s\" cannot be read", path);
	if (!S_ISREG(status.st_mode))
		return rd_fail(RONDO_SETTING, "RONDO_SECRET_FILE \"%s\" is no regular file", path);
	if (status.st_uid != geteuid() && status.st_uid != 0)
		return rd_fail(RONDO_SETTING,
			"RONDO_SECRET_FILE \"%s\" belongs to another user (%u): make one of your "
			"own",
			path, (unsigned)status.st_uid);
	if (status.st_mode & 077)
		return rd_fail(RONDO_SETTING,
			"RONDO_SECRET_FILE \"%s\" is open to other users: chmod 600 it, and change "
			"the secret",
			path);
	return 0;
}

/* ENOENT: there is no file. 0, or an error. */
static int read_file(struct secret *secret, const char *path, bool *found)
{
	int fd = rd_above_stderr(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)), err;

	*found = fd >= 0 || errno != ENOENT;
	if (!*found)
		return 0;
	if (fd < 0)
		return rd_fail_errno("RONDO_SECRET_FILE \"%s\" cannot be read", path);
	err = check_file(path, fd);
	if (!err && get(secret, fd))
		err = rd_fail_errno("RONDO_SECRET_FILE \"%s\" cannot be read", path);
	if (!err && (secret->size < RD_SECRET_LEAST || secret->size > RD_SECRET_MOST))
		err = rd_fail(RONDO_SETTING,
			"RONDO_SECRET_FILE \"%s\" must have %d to %d bytes: head -c 32 /dev/random "
			"| base64 makes good ones",
			path, RD_SECRET_LEAST, RD_SECRET_MOST);
	close(fd);
	return err;
}

/* Whole or not at all: readers find the file by its name only once it is written. Where another
   process has just made it, its bytes count. */
static int write_file(const char *path)
{
	char draft[RD_PATHS_MAX + 32];
	struct secret secret;
	uint64_t name = 0;
	int fd, err = draw(&secret);
	bool wrote;

	if (err)
		return err;
	/* Containers that share the folder may have equal numbers of processes. */
	if (getrandom(&name, sizeof(name), 0) != sizeof(name))
		name = (uint64_t)getpid();
	snprintf(draft, sizeof(draft), "%s.%016" PRIx64, path, name);
	fd = rd_above_stderr(
		open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
	wrote = fd >= 0 && put(fd, &secret) == 0;
	/* A network file system may write when the file is closed. */
	if ((fd >= 0 && close(fd)) || !wrote || (link(draft, path) && errno != EEXIST))
		err = rd_fail_errno("RONDO_SECRET_FILE \"%s\" cannot be written", path);
	if (fd >= 0)
		unlink(draft);
	forget(&secret);
	return err;
}

/* Where rank 0 finds none although it has written one, the name leads nowhere. */
static int find_file(struct secret *secret, const struct rd_settings *settings)
{
	int64_t until = rd_clock_ms() + settings->init_timeout_ms;
	const char *path = settings->secret_file;
	bool found;
	int err;

	for (;;) {
		err = read_file(secret, path, &found);
		if (!err && !found && settings->rank == 0) {
			err = write_file(path);
			if (!err)
				err = read_file(secret, path, &found);
		}
		if (err || found)
			return err;
		if (rd_clock_ms() >= until)
			break;
		rd_cancellation_sleep(LOOK_MS);
		if (rd_is_cancelled())
			return rd_fail_cancelled();
	}
	return rd_fail(RONDO_SETTING,
		"rank %d: RONDO_SECRET_FILE \"%s\" does not exist, and rank 0 has not written it "
		"within %d ms: give a path that all ranks share",
		settings->rank, path, settings->init_timeout_ms);
}

/* ---- The key ------------------------------------------------------------------------------- */

static void take_key(struct secret *secret, const struct rd_settings *settings)
{
	memcpy(secret->bytes, settings->key, sizeof(settings->key));
	secret->size = sizeof(settings->key);
}

/* "rondo 1", the job's name and the rendezvous's key, each with its end. */
static void derive(struct rd_settings *settings, const struct secret *secret)
{
	unsigned char text[8 + RD_STRING_MAX + sizeof(settings->key)] = "rondo 1";

	/* No byte behind the name's end: rd_unique_id_meet() leaves an earlier name there. */
	memcpy(text + 8, settings->job, strnlen(settings->job, RD_STRING_MAX));
	memcpy(text + 8 + RD_STRING_MAX, settings->key, sizeof(settings->key));
	rd_tls_derive(settings->psk, secret->bytes, secret->size, text, sizeof(text));
	explicit_bzero(text, sizeof(text));
	settings->has_psk = true;
}

/* A secret that the user has not asked for is no reason to stop. */
static int use(struct rd_settings *settings, const struct secret *secret, bool from_file)
{
	int err = rd_tls_load();

	if (!err) {
		derive(settings, secret);
		return 0;
	}
	if (from_file)
		return rd_fail(
			RONDO_SETTING, "RONDO_SECRET_FILE needs OpenSSL: %s", rondo_last_error());
	if (settings->rank == 0)
		rd_log(RD_INFO, RD_BOOTSTRAP, "ranks do not prove that they are of this job: %s",
			rondo_last_error());
	return 0;
}

int rd_secret_find(struct rd_settings *settings)
{
	bool from_launcher = settings->secret_fd >= 0 && !settings->has_key;
	bool from_file = !from_launcher && settings->secret_file[0];
	struct secret secret = { .size = 0 };
	int err = 0;

	if (settings->size < 2 || settings->has_psk)
		return 0;
	if (from_launcher)
		err = read_descriptor(&secret, settings->secret_fd);
	else if (from_file)
		err = find_file(&secret, settings);
	else if (settings->has_key)
		take_key(&secret, settings);
	if (!err && secret.size > 0)
		err = use(settings, &secret, from_file);
	forget(&secret);
	return err;
}
