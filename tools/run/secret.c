#include "run/secret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rondo.h"
#include "run/base/descriptor.h"

/* Ranks have keys of their own. */
#define AGENTS "agents of rondo-run"
#define WAIT_MS 10000

static bool is_set(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value;
}

/* Any agent may write the file: none is the first. */
static int find_psk(struct secret *secret)
{
	struct rd_settings settings = { .size = 2,
		.secret_fd = secret->fd,
		.secret_file = "",
		.init_timeout_ms = WAIT_MS,
		.job = AGENTS };
	int err;

	if (is_set("RONDO_SECRET_FILE"))
		settings.secret_file = getenv("RONDO_SECRET_FILE");
	err = rd_secret_find(&settings);
	secret->has_psk = settings.has_psk;
	memcpy(secret->psk, settings.psk, sizeof(secret->psk));
	rd_settings_forget(&settings);
	return err;
}

bool secret_init(struct secret *secret, bool alone)
{
	int err = 0;

	*secret = (struct secret){ .fd = -1 };
	if (!alone && is_set("RONDO_SECRET_FD"))
		secret->fd = atoi(getenv("RONDO_SECRET_FD"));
	if (!alone)
		err = find_psk(secret);
	else if (!is_set("RONDO_SECRET_FILE"))
		err = rd_secret_make(&secret->fd);
	if (err)
		fprintf(stderr, "rondo-run: %s\n", rondo_last_error());
	return !err;
}

void secret_finish(struct secret *secret)
{
	descriptor_close(&secret->fd);
	explicit_bzero(secret->psk, sizeof(secret->psk));
}
