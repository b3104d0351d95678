/*
 * The job's secret. Ranks that have it in common get in; nobody else does. It comes, in this order,
 *
 *   - by a descriptor from rondo-run or rondo_spawn(), RONDO_SECRET_FD, unless the ranks meet by a
 *     unique id: newcomers to a comm may have another launcher, with a secret of its own;
 *   - from the file RONDO_SECRET_FILE. Where there is none, rank 0 writes one, with 32 random
 *     bytes as text, and the others wait for it;
 *   - from the address card's key: the unique id, or the launcher's PMI.
 *
 * The key of TLS derives from it and from the job's name, so jobs that share a file stay apart.
 */
#ifndef RD_SECRET_H
#define RD_SECRET_H

#include "base/settings.h"

#define RD_SECRET_LEAST 16
#define RD_SECRET_MOST 4096

/*
 * Sets has_psk and psk in settings that know where the ranks meet. Without a secret, or without
 * OpenSSL for one that the user has not asked for, has_psk is false: rank 0 warns (control.c).
 * May wait for the file, up to init_timeout_ms.
 *
 * RONDO_SETTING, with a remedy: the descriptor is closed, the file is open to others, is another
 * user's, is too short or too long; there is a file, and no OpenSSL.
 */
int rd_secret_find(struct rd_settings *settings);

/* A new random secret, in memory that a descriptor leads to: *fd, close-on-exec. RONDO_SYSTEM. */
int rd_secret_make(int *fd);
/* The same with these bytes, which came by a way that nobody overhears. */
int rd_secret_keep(int *fd, const char *bytes, size_t size);

#endif
