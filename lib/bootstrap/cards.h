/* The cards of all members, packed: most ranks never use most of them. */
#ifndef RD_CARDS_H
#define RD_CARDS_H

#include <stdbool.h>
#include <stddef.h>

#include "bootstrap/member.h"

/* All zero: empty. A member's bytes are the number of its cards, u8, then of each the name, the
   size, u16, the size without zeros at its end, u16, and the bytes up to those. */
struct rd_cards {
	unsigned char *bytes;
	size_t size, capacity;
	size_t *at; /* where the bytes of each member begin */
	int count; /* members */
};

/* Adds the next member's cards, of `members` in all. False: no memory. */
bool rd_cards_add(
	struct rd_cards *cards, const struct rd_card member[RD_TRANSPORTS_MAX], size_t members);
/* Unpacks a member's card of this number. False: it has fewer. */
bool rd_cards_at(const struct rd_cards *cards, int rank, int number, struct rd_card *card);
/* Unpacks a member's card of a transport. False: it has none. */
bool rd_cards_find(
	const struct rd_cards *cards, int rank, const char *transport, struct rd_card *card);
void rd_cards_finish(struct rd_cards *cards);

#endif
