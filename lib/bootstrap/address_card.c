#include "bootstrap/address_card.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/descriptor.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/port.h"
#include "net/socket.h"

/* At this address alone, whatever networks this host has besides. */
int rd_address_card_open(struct rd_address_card *card, int *fd, int port)
{
	struct rd_addresses own;
	int err = rd_own_address(card->address);

	*fd = -1;
	if (err)
		return err;
	if (getrandom(card->key, sizeof(card->key), 0) != sizeof(card->key))
		return rd_fail_errno("no random number for the rendezvous");
	if (!rd_addresses_find(&own, card->address, port, AI_NUMERICHOST))
		*fd = rd_listen_at(&own.at[0], port);
	card->port = *fd < 0 ? -1 : rd_port_of(*fd);
	if (card->port > 0)
		return 0;
	err = rd_fail_errno(port ? "rank 0 cannot listen at RONDO_PORT %d"
				 : "rank 0 cannot listen at any port (%d)",
		port);
	rd_close_failed(*fd);
	*fd = -1;
	return err;
}

/* ---- As text ------------------------------------------------------------------------------- */

void rd_address_card_print(char text[RD_ADDRESS_CARD_TEXT], const struct rd_address_card *card)
{
	int length = snprintf(text, RD_ADDRESS_CARD_TEXT, "%.63s/%d/", card->address, card->port);

	for (size_t i = 0; i < sizeof(card->key); i++)
		length += snprintf(text + length, 3, "%02x", card->key[i]);
}

static bool is_address(const char *text)
{
	unsigned char bytes[16];

	return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

static unsigned char digit(char c)
{
	return (unsigned char)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Two hexadecimal digits a byte. */
static bool read_key(unsigned char key[RD_KEY_SIZE], const char *text)
{
	if (strlen(text) != 2 * RD_KEY_SIZE || strspn(text, "0123456789abcdef") != 2 * RD_KEY_SIZE)
		return false;
	for (size_t i = 0; i < RD_KEY_SIZE; i++)
		key[i] = (unsigned char)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
	return true;
}

int rd_address_card_read(struct rd_address_card *card, const char *text)
{
	size_t length = strcspn(text, "/");
	const char *end = NULL;
	char quote[41];
	int64_t port = 0;

	if (length < sizeof(card->address) && text[length]) {
		snprintf(card->address, sizeof(card->address), "%.*s", (int)length, text);
		end = rd_read_number(&port, text + length + 1);
	}
	if (!end || *end != '/' || port < 1 || port > 65535 || !is_address(card->address) ||
		!read_key(card->key, end + 1))
		return rd_fail(
			RONDO_PROTOCOL, "\"%s\" is not where ranks meet", rd_quotable(quote, text));
	card->port = (int)port;
	return 0;
}

void rd_address_card_use(struct rd_settings *settings, const struct rd_address_card *card)
{
	snprintf(settings->address, sizeof(settings->address), "%s", card->address);
	settings->port = card->port;
	settings->has_key = true;
	memcpy(settings->key, card->key, sizeof(settings->key));
}
