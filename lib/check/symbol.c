#include "check/symbol.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void rd_symbols_init(struct rd_symbols *symbols, int size)
{
	*symbols = (struct rd_symbols){
		.size = size,
		.words = (size + 63) / 64,
		.first_free = -1,
	};
}

void rd_symbols_finish(struct rd_symbols *symbols)
{
	free(symbols->sums);
	free(symbols->bits);
}

static struct rd_sum *sum_of(const struct rd_symbols *symbols, struct rd_symbol symbol)
{
	return symbol.id < symbols->size ? NULL : &symbols->sums[symbol.id - symbols->size];
}

static uint64_t *bits_of(const struct rd_symbols *symbols, struct rd_symbol symbol)
{
	return symbols->bits + (size_t)(symbol.id - symbols->size) * symbols->words;
}

struct rd_symbol rd_symbol_get(struct rd_symbols *symbols, struct rd_symbol symbol)
{
	struct rd_sum *sum = sum_of(symbols, symbol);

	if (sum)
		sum->uses++;
	return symbol;
}

void rd_symbol_put(struct rd_symbols *symbols, struct rd_symbol symbol)
{
	struct rd_sum *sum = sum_of(symbols, symbol);

	if (!sum || --sum->uses)
		return;
	sum->next_free = symbols->first_free;
	symbols->first_free = symbol.id - symbols->size;
}

int rd_symbol_count(const struct rd_symbols *symbols, struct rd_symbol symbol)
{
	const struct rd_sum *sum = sum_of(symbols, symbol);

	return sum ? sum->count : 1;
}

/* The finaliser of splitmix64 (S. Vigna, public domain): equal only where the input was. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

uint64_t rd_symbol_order(const struct rd_symbols *symbols, struct rd_symbol symbol)
{
	const struct rd_sum *sum = sum_of(symbols, symbol);

	return sum ? sum->order : mix(symbol.id);
}

static bool has(const struct rd_symbols *symbols, struct rd_symbol symbol, int rank)
{
	return symbol.id < symbols->size ? symbol.id == rank
					 : bits_of(symbols, symbol)[rank / 64] >> rank % 64 & 1;
}

int rd_symbol_common(const struct rd_symbols *symbols, struct rd_symbol a, struct rd_symbol b)
{
	if (a.id < symbols->size)
		return has(symbols, b, a.id) ? a.id : -1;
	if (b.id < symbols->size)
		return has(symbols, a, b.id) ? b.id : -1;
	for (int w = 0; w < symbols->words; w++) {
		uint64_t both = bits_of(symbols, a)[w] & bits_of(symbols, b)[w];

		if (both)
			return w * 64 + __builtin_ctzll(both);
	}
	return -1;
}

int rd_symbol_missing(const struct rd_symbols *symbols, struct rd_symbol symbol)
{
	for (int rank = 0; rank < symbols->size; rank++)
		if (!has(symbols, symbol, rank))
			return rank;
	return -1;
}

static int grow_sums(struct rd_symbols *symbols)
{
	int capacity = symbols->capacity ? 2 * symbols->capacity : 64;
	struct rd_sum *sums = realloc(symbols->sums, capacity * sizeof(*sums));
	uint64_t *bits;

	if (sums)
		symbols->sums = sums;
	bits = realloc(symbols->bits, (size_t)capacity * symbols->words * sizeof(*bits));
	if (bits)
		symbols->bits = bits;
	if (!sums || !bits)
		return rd_fail(RONDO_MEMORY, "no memory to check plans");
	symbols->capacity = capacity;
	return 0;
}

static int new_sum(struct rd_symbols *symbols, int *number)
{
	if (symbols->first_free >= 0) {
		*number = symbols->first_free;
		symbols->first_free = symbols->sums[*number].next_free;
		return 0;
	}
	if (symbols->count == symbols->capacity) {
		int err = grow_sums(symbols);

		if (err)
			return err;
	}
	*number = symbols->count++;
	return 0;
}

static void add_bits(const struct rd_symbols *symbols, uint64_t *bits, struct rd_symbol symbol)
{
	if (symbol.id < symbols->size) {
		bits[symbol.id / 64] |= UINT64_C(1) << symbol.id % 64;
		return;
	}
	for (int w = 0; w < symbols->words; w++)
		bits[w] |= bits_of(symbols, symbol)[w];
}

int rd_symbol_combine(struct rd_symbols *symbols, struct rd_symbol a, struct rd_symbol b,
	struct rd_symbol *result)
{
	uint64_t a_order = rd_symbol_order(symbols, a), b_order = rd_symbol_order(symbols, b);
	struct rd_sum *sum;
	uint64_t *bits;
	int number;
	int err = new_sum(symbols, &number);

	if (err)
		return err;
	*result = (struct rd_symbol){ .chunk = a.chunk, .id = symbols->size + number };
	bits = bits_of(symbols, *result);
	memset(bits, 0, symbols->words * sizeof(*bits));
	add_bits(symbols, bits, a);
	add_bits(symbols, bits, b);
	sum = &symbols->sums[number];
	sum->uses = 1;
	sum->count = 0;
	for (int w = 0; w < symbols->words; w++)
		sum->count += __builtin_popcountll(bits[w]);
	/* a op b and b op a are the same bits, so the hash does not depend on their order. */
	sum->order = mix(mix(a_order) + mix(b_order));
	return 0;
}
