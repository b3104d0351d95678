/*
 * Rank 0's address card: a socket that listens at an address of this host, and the text by which
 * the other ranks find it.
 */
#ifndef RD_ADDRESS_CARD_H
#define RD_ADDRESS_CARD_H

#include "base/settings.h"
#include "net/address.h"

#define RD_ADDRESS_CARD_TEXT 104

struct rd_address_card {
	char address[RD_NUMERIC_ADDRESS]; /* an IP address */
	int port;
	unsigned char key[RD_KEY_SIZE]; /* random: ranks that have another are refused */
};

/*
 * Opens the socket (close-on-exec), which the caller owns, at this port; 0: any that is free. The
 * address is this host's own.
 */
int rd_address_card_open(struct rd_address_card *card, int *fd, int port);

/* "192.0.2.2/45123/00c0ffee00c0ffee00c0ffee00c0ffee": no blanks. It has the key: only ranks of the
   job may read it. */
void rd_address_card_print(char text[RD_ADDRESS_CARD_TEXT], const struct rd_address_card *card);
/* Checks it all: the address is an IP address. RONDO_PROTOCOL: this is no such text. */
int rd_address_card_read(struct rd_address_card *card, const char *text);

/* Lets the settings meet there. */
void rd_address_card_use(struct rd_settings *settings, const struct rd_address_card *card);

#endif
