#include "bootstrap/address_card.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/port.h"

/* ---- The socket ---------------------------------------------------------------------------- */

/* At this address alone, whatever networks this host has besides. */
static bool bind_at(int fd, const char *address, int port)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = v4.sin_port };
	int on = 1;

	/* Connections of an earlier job at this port may be in TIME_WAIT. */
	if (port)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (inet_pton(AF_INET6, address, &v6.sin6_addr) == 1)
		return bind(fd, (struct sockaddr *)&v6, sizeof(v6)) == 0;
	return inet_pton(AF_INET, address, &v4.sin_addr) == 1 &&
	       bind(fd, (struct sockaddr *)&v4, sizeof(v4)) == 0;
}

static int port_of(int fd)
{
	struct sockaddr_storage at = { 0 };
	socklen_t size = sizeof(at);

	if (getsockname(fd, (struct sockaddr *)&at, &size))
		return -1;
	return ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
					      : ((struct sockaddr_in *)&at)->sin_port);
}

int rd_address_card_open(struct rd_address_card *card, int *fd, int port)
{
	int family, err = rd_own_address(card->address);

	*fd = -1;
	if (err)
		return err;
	if (getrandom(card->key, sizeof(card->key), 0) != sizeof(card->key))
		return rd_fail_errno("no random number for the rendezvous");
	family = strchr(card->address, ':') ? AF_INET6 : AF_INET;
	*fd = rd_above_stderr(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
	if (*fd >= 0 && bind_at(*fd, card->address, port) && listen(*fd, RD_BACKLOG) == 0)
		card->port = port_of(*fd);
	else
		card->port = -1;
	if (card->port > 0)
		return 0;
	err = rd_fail_errno(port ? "rank 0 cannot listen at RONDO_PORT %d"
				 : "rank 0 cannot listen at any port (%d)",
		port);
	if (*fd >= 0)
		close(*fd);
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
