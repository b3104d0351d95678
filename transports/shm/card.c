#include "transports/shm/card.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/settings.h"
#include "transports/shm/fifo.h"

#define CARD_MAGIC 0x6d687372u /* "rshm" */
#define HELLO_MAGIC 0x6d687368u /* "hshm" */
#define GREET_MAGIC 0x6d687367u /* "gshm" */
#define END_MAGIC 0x6d687365u /* "eshm" */
#define SHM_VERSION 5

/* ---- Cards ----------------------------------------------------------------------------------- */

int rd_shm_card_make(struct rd_shm_card *card, int number)
{
	*card = (struct rd_shm_card){
		.magic = CARD_MAGIC, .version = SHM_VERSION, .number = (uint32_t)number
	};
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

bool rd_shm_card_connects(const struct rd_shm_card *card, const struct rd_shm_card *to)
{
	if (card->number != to->number)
		return card->number > to->number;
	return memcmp(card->name, to->name, sizeof(card->name)) > 0;
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

/* ---- Packets --------------------------------------------------------------------------------- */

enum rd_shm_kind rd_shm_packet_kind(const union rd_shm_packet *packet, size_t size)
{
	if (size < sizeof(packet->any))
		return RD_SHM_INVALID;
	if (packet->any.magic == HELLO_MAGIC && size == sizeof(packet->hello))
		return RD_SHM_HELLO;
	if (packet->any.magic == GREET_MAGIC && size == sizeof(packet->greeting))
		return RD_SHM_GREETING;
	if (packet->any.magic == END_MAGIC && size == sizeof(packet->end))
		return RD_SHM_END;
	return rd_shm_notice_valid(&packet->notice, size) ? RD_SHM_NOTICE : RD_SHM_INVALID;
}

struct rd_shm_hello rd_shm_hello_to(
	const struct rd_shm_card *from, const struct rd_shm_card *to, bool barriers)
{
	struct rd_shm_hello hello = {
		.magic = HELLO_MAGIC,
		.version = SHM_VERSION,
		.from = *from,
		.barriers = barriers,
	};

	memcpy(hello.to, to->name, sizeof(hello.to));
	return hello;
}

bool rd_shm_hello_valid(const struct rd_shm_hello *hello, const struct rd_shm_card *here)
{
	const struct rd_shm_card *from = &hello->from;

	return hello->version == SHM_VERSION && from->magic == CARD_MAGIC &&
	       from->version == SHM_VERSION &&
	       memcmp(hello->to, here->name, sizeof(hello->to)) == 0 &&
	       memcmp(from->name, here->name, sizeof(from->name)) != 0;
}

struct rd_shm_greeting rd_shm_greeting_to(const struct rd_local *local, int to, uint32_t slots)
{
	return (struct rd_shm_greeting){
		.magic = GREET_MAGIC,
		.version = SHM_VERSION,
		.comm_id = local->comm_id,
		.from = (uint32_t)local->rank,
		.to = (uint32_t)to,
		.channels = (uint32_t)local->settings->channels,
		.slots = slots,
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

struct rd_shm_end rd_shm_end_of(uint64_t comm_id, bool goodbye)
{
	return (struct rd_shm_end){ .magic = END_MAGIC, .goodbye = goodbye, .comm_id = comm_id };
}
