/*
 * Symbols: the values that the checker computes with instead of numbers. A symbol names the chunk
 * of the collective's space that a piece of memory holds. It also identifies the ranks whose
 * contributions are in it, and the order in which they were combined. One rank's contribution
 * alone needs no memory. Sums of several live in a store and are reference counted.
 */
#ifndef RD_SYMBOL_H
#define RD_SYMBOL_H

#include <stdbool.h>
#include <stdint.h>

struct rd_symbol {
	int chunk; /* -1: nothing was ever stored here */
	int id; /* below size: that rank alone; else sum number id - size */
};

struct rd_sum {
	int uses; /* references; 0: free */
	int next_free; /* -1: none */
	int count; /* contributions in it */
	uint64_t order; /* a hash of the combinations that made it */
};

struct rd_symbols {
	int size; /* ranks */
	struct rd_sum *sums;
	uint64_t *bits; /* [sum][words]: the ranks whose contributions are in it */
	int words, count, capacity;
	int first_free; /* -1: none */
};

void rd_symbols_init(struct rd_symbols *symbols, int size);
void rd_symbols_finish(struct rd_symbols *symbols);

/* Take and put back a reference. */
struct rd_symbol rd_symbol_get(struct rd_symbols *symbols, struct rd_symbol symbol);
void rd_symbol_put(struct rd_symbols *symbols, struct rd_symbol symbol);

/* Combines a and b into a symbol with one reference. Contributions that are in both count once. */
int rd_symbol_combine(struct rd_symbols *symbols, struct rd_symbol a, struct rd_symbol b,
	struct rd_symbol *result);

/* The number of ranks whose contributions are in it. */
int rd_symbol_count(const struct rd_symbols *symbols, struct rd_symbol symbol);
/* A rank whose contribution is in both; -1: none. */
int rd_symbol_common(const struct rd_symbols *symbols, struct rd_symbol a, struct rd_symbol b);
/* A rank whose contribution is not in it; -1: none. */
int rd_symbol_missing(const struct rd_symbols *symbols, struct rd_symbol symbol);
/* Equal for two symbols whose numbers have the same bits: the same contributions, combined in
   the same order. The two sides of a combination may be swapped. A hash: 64 bits. */
uint64_t rd_symbol_order(const struct rd_symbols *symbols, struct rd_symbol symbol);

#endif
