#include "transports/shm/card.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/settings.h"
#include "transports/shm/fifo.h"
#include "transports/shm/socket.h"

#define CARD_MAGIC 0x6d687372u /* "rshm" */
#define GREET_MAGIC 0x6d687367u /* "gshm" */
#define SHM_VERSION 3

int rd_shm_card_make(struct rd_shm_card *card)
{
	*card = (struct rd_shm_card){ .magic = CARD_MAGIC, .version = SHM_VERSION };
	return getrandom(card->name, sizeof(card->name), 0) == sizeof(card->name)
		       ? 0
		       : rd_fail_errno("getrandom");
}

int rd_shm_card_read(struct rd_shm_card *card, const unsigned char *bytes, size_t size)
{
	if (size != sizeof(*card))
		return rd_fail(
			RONDO_PROTOCOL, "a shm card of %zu bytes, not %zu", size, sizeof(*card));
	memcpy(card, bytes, sizeof(*card));
	if (card->magic != CARD_MAGIC || card->version != SHM_VERSION)
		return rd_fail(RONDO_PROTOCOL, "a shm card of another version, or none at all");
	return 0;
}

socklen_t rd_shm_card_address(const struct rd_shm_card *card, struct sockaddr_un *address)
{
	/* The first byte is zero: an abstract address, not in the file system. */
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	int length = 1 + sprintf(address->sun_path + 1, "rondo-");

	for (int i = 0; i < RD_SHM_NAME_SIZE; i++)
		length += sprintf(address->sun_path + length, "%02x", card->name[i]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length);
}

void rd_shm_greeting_init(struct rd_shm_greeting *greeting, const struct rd_local *local, int to)
{
	*greeting = (struct rd_shm_greeting){
		.magic = GREET_MAGIC,
		.version = SHM_VERSION,
		.comm_id = local->comm_id,
		.from = (uint32_t)local->rank,
		.to = (uint32_t)to,
		.channels = (uint32_t)local->settings->channels,
		.piece_size = local->settings->piece_size,
	};
}

bool rd_shm_greeting_valid(const struct rd_shm_greeting *greeting, const struct rd_local *local)
{
	return greeting->magic == GREET_MAGIC && greeting->version == SHM_VERSION &&
	       greeting->comm_id == local->comm_id && greeting->to == (uint32_t)local->rank &&
	       greeting->from < (uint32_t)local->size &&
	       greeting->channels == (uint32_t)local->settings->channels &&
	       greeting->piece_size == local->settings->piece_size && greeting->slots >= 1 &&
	       greeting->slots <= RD_SHM_SLOTS_MAX;
}

enum rd_shm_received rd_shm_greeting_recv(
	int socket, struct rd_shm_greeting *greeting, int fds[2], size_t fd_count)
{
	ssize_t size = rd_shm_packet_recv(socket, greeting, sizeof(*greeting), fds);

	if (size < 0)
		return errno == EAGAIN || errno == EINTR ? RD_SHM_RECEIVED_NOTHING
							 : RD_SHM_RECEIVED_INVALID;
	if (size == (ssize_t)sizeof(*greeting) &&
		(size_t)(fds[0] >= 0) + (size_t)(fds[1] >= 0) == fd_count)
		return RD_SHM_RECEIVED_GREETING;
	rd_shm_fd_close(&fds[0]);
	rd_shm_fd_close(&fds[1]);
	return RD_SHM_RECEIVED_INVALID;
}
