#include "bootstrap/cards.h"

#include <stdlib.h>
#include <string.h>

/* Beside its bytes. */
#define NAME sizeof(((struct rd_card *)NULL)->transport)
#define HEAD (NAME + 2 * sizeof(uint16_t))

/* Without the zeros at its end: those of a tcp card are 168 of 208 bytes, or fewer. */
static uint16_t stored_size(const struct rd_card *card)
{
	uint16_t size = card->size;

	while (size > 0 && card->bytes[size - 1] == 0)
		size--;
	return size;
}

/* At first for twice the first member's cards: bytes that grew would leave holes, and pages that
   are never written cost nothing. */
static bool has_room(struct rd_cards *cards, size_t more, size_t members)
{
	size_t capacity = cards->capacity ? cards->capacity : 2 * more * members;
	void *grown;

	if (!cards->at)
		cards->at = calloc(members, sizeof(*cards->at));
	if (!cards->at)
		return false;
	while (capacity < cards->size + more)
		capacity *= 2;
	if (capacity == cards->capacity)
		return true;
	grown = realloc(cards->bytes, capacity);
	if (!grown)
		return false;
	cards->bytes = grown;
	cards->capacity = capacity;
	return true;
}

bool rd_cards_add(
	struct rd_cards *cards, const struct rd_card member[RD_TRANSPORTS_MAX], size_t members)
{
	size_t size = 1;
	unsigned char number = 0, *to;

	while (number < RD_TRANSPORTS_MAX && member[number].transport[0] != '\0')
		size += HEAD + stored_size(&member[number++]);
	if (!has_room(cards, size, members))
		return false;
	cards->at[cards->count++] = cards->size;
	to = cards->bytes + cards->size;
	*to++ = number;
	for (int i = 0; i < number; i++) {
		uint16_t stored = stored_size(&member[i]);

		memcpy(to, member[i].transport, NAME);
		memcpy(to + NAME, &member[i].size, sizeof(stored));
		memcpy(to + HEAD - sizeof(stored), &stored, sizeof(stored));
		memcpy(to + HEAD, member[i].bytes, stored);
		to += HEAD + stored;
	}
	cards->size += size;
	return true;
}

bool rd_cards_at(const struct rd_cards *cards, int rank, int number, struct rd_card *card)
{
	const unsigned char *from = cards->bytes + cards->at[rank];
	uint16_t stored;

	if (number >= *from++)
		return false;
	for (;; number--, from += HEAD + stored) {
		memcpy(&stored, from + HEAD - sizeof(stored), sizeof(stored));
		if (number == 0)
			break;
	}
	memset(card, 0, sizeof(*card));
	memcpy(card->transport, from, NAME);
	memcpy(&card->size, from + NAME, sizeof(card->size));
	memcpy(card->bytes, from + HEAD, stored);
	return true;
}

bool rd_cards_find(
	const struct rd_cards *cards, int rank, const char *transport, struct rd_card *card)
{
	for (int number = 0; rd_cards_at(cards, rank, number, card); number++)
		if (strcmp(card->transport, transport) == 0)
			return true;
	return false;
}

void rd_cards_finish(struct rd_cards *cards)
{
	free(cards->bytes);
	free(cards->at);
	*cards = (struct rd_cards){ 0 };
}
