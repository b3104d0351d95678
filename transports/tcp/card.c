#include "transports/tcp/card.h"

#include <endian.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "bootstrap/listener.h"

#define MAGIC 0x63646f72u /* "rodc" */

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "structs travel as they lie in memory");
_Static_assert(sizeof(struct rd_tcp_card) == 16 + RD_TCP_ADDRESSES_MAX * 24, "no gaps");
_Static_assert(sizeof(struct rd_tcp_card) <= RD_CARD_MAX, "it fits");
_Static_assert(sizeof(struct rd_tcp_hello) == RD_HELLO_SIZE, "no gaps");

void rd_tcp_card_init(struct rd_tcp_card *card, const struct rd_place *place)
{
	memset(card, 0, sizeof(*card));
	card->magic = MAGIC;
	card->version = RD_TCP_VERSION;
	card->host = rd_hash(
		RD_HASH_INIT, place->host_id, strnlen(place->host_id, sizeof(place->host_id)));
}

void rd_tcp_card_add(struct rd_tcp_card *card, const struct sockaddr_storage *address)
{
	const struct sockaddr_in *in = (const void *)address;
	const struct sockaddr_in6 *in6 = (const void *)address;
	struct rd_tcp_address *at = &card->at[card->count++];

	if (address->ss_family == AF_INET) {
		at->family = 4;
		at->port = ntohs(in->sin_port);
		memcpy(at->bytes, &in->sin_addr, sizeof(in->sin_addr));
	} else {
		at->family = 6;
		at->port = ntohs(in6->sin6_port);
		memcpy(at->bytes, &in6->sin6_addr, sizeof(in6->sin6_addr));
	}
}

void rd_tcp_card_address(const struct rd_tcp_card *card, int index, const char *interface,
	struct sockaddr_storage *address)
{
	const struct rd_tcp_address *at = &card->at[index];
	struct sockaddr_in *in = (void *)address;
	struct sockaddr_in6 *in6 = (void *)address;

	memset(address, 0, sizeof(*address));
	if (at->family == 4) {
		in->sin_family = AF_INET;
		in->sin_port = htons(at->port);
		memcpy(&in->sin_addr, at->bytes, sizeof(in->sin_addr));
		return;
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(at->port);
	memcpy(&in6->sin6_addr, at->bytes, sizeof(in6->sin6_addr));
	if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
		in6->sin6_scope_id = if_nametoindex(interface);
}

static bool makes_sense(const struct rd_tcp_card *card)
{
	if (card->magic != MAGIC || card->count < 1 || card->count > RD_TCP_ADDRESSES_MAX ||
		card->shared < 1 || card->shared > card->count)
		return false;
	for (int i = 0; i < card->count; i++) {
		const struct rd_tcp_address *at = &card->at[i];

		if ((at->family != 4 && at->family != 6) || at->port == 0 || at->zero != 0)
			return false;
	}
	return true;
}

int rd_tcp_card_read(struct rd_tcp_card *card, const unsigned char *bytes, size_t size, int peer)
{
	if (size != sizeof(*card))
		return rd_fail(RONDO_PROTOCOL, "rank %d has a tcp card of %zu bytes, not %zu", peer,
			size, sizeof(*card));
	memcpy(card, bytes, sizeof(*card));
	if (card->magic == MAGIC && card->version != RD_TCP_VERSION)
		return rd_fail(RONDO_PROTOCOL, "rank %d speaks version %d of tcp, here %d", peer,
			card->version, RD_TCP_VERSION);
	if (!makes_sense(card))
		return rd_fail(RONDO_PROTOCOL, "rank %d has a tcp card that makes no sense", peer);
	return 0;
}

/* Compares all bytes, however many differ. */
static bool same(const void *a, const void *b, size_t size)
{
	const uint8_t *x = a, *y = b;
	uint8_t difference = 0;

	for (size_t i = 0; i < size; i++)
		difference |= x[i] ^ y[i];
	return difference == 0;
}

bool rd_tcp_hello_valid(const struct rd_tcp_hello *hello)
{
	return hello->magic == RD_TCP_HELLO_MAGIC && hello->version == RD_TCP_VERSION &&
	       hello->stripe == 0 && hello->zero == 0 && hello->from >= 0 && hello->to >= 0 &&
	       hello->channel >= 0 && hello->channel < RD_TCP_CHANNELS_MAX;
}

bool rd_tcp_hello_fits(const struct rd_tcp_hello *hello, const struct rd_local *local)
{
	return hello->comm_id == local->comm_id && hello->from < local->size &&
	       hello->to == local->rank && same(hello->key, local->key, sizeof(hello->key));
}

bool rd_tcp_hello_same(const struct rd_tcp_hello *a, const struct rd_tcp_hello *b)
{
	return same(a, b, sizeof(*a));
}
