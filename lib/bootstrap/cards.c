#include "bootstrap/cards.h"

#include <stdlib.h>
#include <string.h>

/* Beside its bytes. */
#define HEAD (sizeof(((struct rd_card *)NULL)->transport) + sizeof(uint16_t))

/* Both tables grow to twice their size. */
static bool has_room(struct rd_cards *cards, size_t more)
{
	size_t capacity = cards->capacity ? cards->capacity : 1024;
	int most = cards->most ? cards->most : 16;
	void *grown;

	while (capacity < cards->size + more)
		capacity *= 2;
	if (capacity != cards->capacity) {
		grown = realloc(cards->bytes, capacity);
		if (!grown)
			return false;
		cards->bytes = grown;
		cards->capacity = capacity;
	}
	if (cards->count < cards->most)
		return true;
	most *= cards->most ? 2 : 1;
	grown = realloc(cards->at, (size_t)most * sizeof(*cards->at));
	if (!grown)
		return false;
	cards->at = grown;
	cards->most = most;
	return true;
}

bool rd_cards_add(struct rd_cards *cards, const struct rd_card member[RD_TRANSPORTS_MAX])
{
	size_t size = 1;
	unsigned char number = 0, *to;

	while (number < RD_TRANSPORTS_MAX && member[number].transport[0] != '\0')
		size += HEAD + member[number++].size;
	if (!has_room(cards, size))
		return false;
	cards->at[cards->count++] = cards->size;
	to = cards->bytes + cards->size;
	*to++ = number;
	for (int i = 0; i < number; i++) {
		memcpy(to, member[i].transport, sizeof(member[i].transport));
		memcpy(to + sizeof(member[i].transport), &member[i].size, sizeof(uint16_t));
		memcpy(to + HEAD, member[i].bytes, member[i].size);
		to += HEAD + member[i].size;
	}
	cards->size += size;
	return true;
}

bool rd_cards_at(const struct rd_cards *cards, int rank, int number, struct rd_card *card)
{
	const unsigned char *from = cards->bytes + cards->at[rank];
	uint16_t size;

	if (number >= *from++)
		return false;
	for (;; number--, from += HEAD + size) {
		memcpy(&size, from + sizeof(card->transport), sizeof(size));
		if (number == 0)
			break;
	}
	memset(card, 0, sizeof(*card));
	memcpy(card->transport, from, sizeof(card->transport));
	card->size = size;
	memcpy(card->bytes, from + HEAD, size);
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
