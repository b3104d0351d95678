#include "bootstrap/unique_id.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "bootstrap/address_card.h"

#define MARK "rondo 1 "

/* The socket of an id that no comm has used yet. */
struct offer {
	unsigned char key[RD_KEY_SIZE];
	int fd;
	struct offer *next;
};

static struct offer *offers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

_Static_assert(
	sizeof(MARK) + RD_ADDRESS_CARD_TEXT <= sizeof(struct rondo_unique_id), "an id has room");

int rondo_get_unique_id(struct rondo_unique_id *id)
{
	struct rd_address_card card;
	struct offer *offer;
	int err;

	if (!id)
		return rd_fail(RONDO_INVALID, "rondo_get_unique_id: id is NULL");
	memset(id, 0, sizeof(*id));
	offer = malloc(sizeof(*offer));
	if (!offer)
		return rd_fail(RONDO_MEMORY, "no memory for a unique id");
	err = rd_address_card_open(&card, &offer->fd, 0);
	if (err) {
		free(offer);
		return err;
	}
	memcpy(id->bytes, MARK, strlen(MARK));
	rd_address_card_print(id->bytes + strlen(MARK), &card);
	memcpy(offer->key, card.key, sizeof(offer->key));
	pthread_mutex_lock(&lock);
	offer->next = offers;
	offers = offer;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* The socket of the id, which becomes the caller's; -1: there is none here. */
static int take_offer(const unsigned char key[RD_KEY_SIZE])
{
	struct offer **at = &offers, *found;
	int fd = -1;

	pthread_mutex_lock(&lock);
	while (*at && memcmp((*at)->key, key, RD_KEY_SIZE) != 0)
		at = &(*at)->next;
	found = *at;
	if (found) {
		*at = found->next;
		fd = found->fd;
	}
	pthread_mutex_unlock(&lock);
	if (found)
		explicit_bzero(found, sizeof(*found));
	free(found);
	return fd;
}

int rd_unique_id_meet(struct rd_settings *settings, const struct rondo_unique_id *id)
{
	struct rd_address_card card;

	if (memcmp(id->bytes, MARK, strlen(MARK)) != 0 ||
		id->bytes[sizeof(id->bytes) - 1] != '\0' ||
		rd_address_card_read(&card, id->bytes + strlen(MARK)))
		return rd_fail(RONDO_INVALID,
			"rank %d: unique_id in struct rondo_config is none that "
			"rondo_get_unique_id() of this version made: pass rank 0's %zu bytes to every "
			"rank",
			settings->rank, sizeof(*id));
	rd_address_card_use(settings, &card);
	/* The id tells jobs apart: its ranks may have come by several launchers. */
	settings->job[0] = '\0';
	if (settings->rank != 0)
		return 0;
	settings->rendezvous_fd = take_offer(card.key);
	if (settings->rendezvous_fd >= 0)
		return 0;
	return rd_fail(RONDO_INVALID,
		"rank 0: unique_id in struct rondo_config is of another process, or was used before: "
		"rank 0 makes one with rondo_get_unique_id() for each comm");
}
