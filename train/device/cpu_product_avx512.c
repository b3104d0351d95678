/*
 * Products of matrices by AVX-512, without copies of the factors.
 *
 * A tile of sums lies in registers: 8 rows of c by 3 vectors of its columns. A step along the inner
 * side takes 3 vectors of b, a number of a for each row, and 24 multiply-adds (Goto and van de
 * Geijn: "Anatomy of high-performance matrix multiplication", 2008). Both factors are read in
 * place, for a small batch reads each weight only a few times: copies would cost more than they
 * save.
 *
 * So b needs vectors along its columns. A transposed b has them along the inner side: then
 * c^T = b^T a^T is computed, if its vectors are quicker to get.
 */
#if defined(__x86_64__)

#if !defined(__clang__)
#pragma GCC optimize("O3")
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#endif

#include <immintrin.h>

#include "train/device/cpu_product.h"

#if defined(__clang__)
#pragma clang attribute push( \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), apply_to = function)
#endif

#define WIDTH 16 /* floats of a vector */
/* A tile's sums and factors fit into 32 registers. */
#define TILE_ROWS 8
#define TILE_VECTORS 3
/* Steps along the inner side, whose vectors of b, of one tile, stay in the caches next to the
   processor, while all rows meet them. */
#define DEPTH 512
/* Rows of c^T in scratch. */
#define TURNED_ROWS 512
#define PANEL (DEPTH * TILE_VECTORS * WIDTH)

#define INLINE static inline __attribute__((always_inline))

/* GCC keeps sums in registers where it unrolls all loops over them. */
#if defined(__clang__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Where sums go: c = sums, or c += alpha * sums. */
struct result {
	float *c;
	size_t pitch;
	bool adds;
	float alpha; /* 1, if it does not add */
};

/* One product, without its batch: c[rows][columns] of a's numbers and b's vectors. */
struct task {
	int rows, columns, inner;
	struct matrix a, b;
	struct result result;
};

/* Where a tile reads: the number of row r and step k is at a[r * a_row + k * a_step], and the
   vectors of step k begin at b[k * b_step]. */
struct factors {
	const float *a, *b;
	size_t a_row, a_step, b_step;
};

/* The size of part p where n things make the fewest parts of at most `most`, nearly equal. */
INLINE int part_size(int n, int most, int p)
{
	int parts = (n + most - 1) / most;
	return n / parts + (p < n % parts);
}

/* ---- Vectors ---- */

INLINE __mmask16 first(int count)
{
	return count >= WIDTH ? 0xffff : count < 0 ? 0 : (__mmask16)((1u << count) - 1);
}

/* The first `left` elements, and zeros behind them. */
INLINE __m512 load_left(const float *from, int left)
{
	return _mm512_maskz_loadu_ps(first(left), from);
}

/* In a register: GCC would read memory again for each use. */
INLINE __m512 keep(__m512 x)
{
	__asm__("" : "+v"(x));
	return x;
}

/* c + alpha * x. The product is rounded before the sum, as an optimizer's is. */
INLINE __m512 scaled_sum(__m512 c, float alpha, __m512 x)
{
	return _mm512_add_ps(c, keep(_mm512_mul_ps(_mm512_set1_ps(alpha), x)));
}

/* The first `left` elements, at c of the result. */
INLINE void put(__m512 x, struct result to, float *c, int left)
{
	if (to.adds)
		x = scaled_sum(load_left(c, left), to.alpha, x);
	_mm512_mask_storeu_ps(c, first(left), x);
}

/* ---- Tiles ---- */

/* rows * vectors sums; the usual cases without masks, for many products have a small depth. */
INLINE void put_tile(
	int rows, int vectors, __m512 sums[TILE_ROWS][TILE_VECTORS], struct result to, int left)
{
	bool full = left >= vectors * WIDTH;
	UNROLL
	for (int r = 0; r < rows; r++, to.c += to.pitch) {
		UNROLL
		for (int v = 0; v < vectors; v++) {
			float *c = to.c + v * WIDTH;
			if (full && !to.adds)
				_mm512_storeu_ps(c, sums[r][v]);
			else if (full)
				_mm512_storeu_ps(
					c, scaled_sum(_mm512_loadu_ps(c), to.alpha, sums[r][v]));
			else
				put(sums[r][v], to, c, left - v * WIDTH);
		}
	}
}

/* rows * vectors sums; both are constants where this is inlined. `left`: columns from here. */
INLINE void tile(int rows, int vectors, int depth, struct factors from, struct result to, int left)
{
	__m512 sums[TILE_ROWS][TILE_VECTORS];
	UNROLL
	for (int r = 0; r < rows; r++) {
		UNROLL
		for (int v = 0; v < vectors; v++)
			sums[r][v] = _mm512_setzero_ps();
	}
	/* So that its place is there when it is added. */
	for (int r = 0; to.adds && r < rows; r++)
		for (int v = 0; v < vectors; v++)
			_mm_prefetch((const char *)(to.c + r * to.pitch + v * WIDTH), _MM_HINT_T0);
	for (int k = 0; k < depth; k++, from.a += from.a_step, from.b += from.b_step) {
		__m512 in[TILE_VECTORS];
		UNROLL
		for (int v = 0; v < vectors; v++)
			in[v] = keep(_mm512_loadu_ps(from.b + v * WIDTH));
		UNROLL
		for (int r = 0; r < rows; r++) {
			__m512 number = keep(_mm512_set1_ps(from.a[r * from.a_row]));
			UNROLL
			for (int v = 0; v < vectors; v++)
				sums[r][v] = _mm512_fmadd_ps(number, in[v], sums[r][v]);
		}
	}
	put_tile(rows, vectors, sums, to, left);
}

/* `count` tiles, one below the other: a call and its switch would cost each of them 5 % at a depth
   of 64. */
INLINE void tiles(int count, int rows, int vectors, int depth, struct factors from,
	struct result to, int left)
{
	for (; count > 0; count--, from.a += rows * from.a_row, to.c += rows * to.pitch)
		tile(rows, vectors, depth, from, to, left);
}

#define TILE_CASE(r, v) \
	case (r)*4 + (v): \
		if ((r) <= TILE_ROWS && (v) <= TILE_VECTORS) \
			tiles(count, r, v, depth, from, to, left); \
		break
#define TILE_CASES(r) \
	TILE_CASE(r, 1); \
	TILE_CASE(r, 2); \
	TILE_CASE(r, 3)

static void any_tiles(int count, int rows, int vectors, int depth, struct factors from,
	struct result to, int left)
{
	switch (rows * 4 + vectors) {
		TILE_CASES(1);
		TILE_CASES(2);
		TILE_CASES(3);
		TILE_CASES(4);
		TILE_CASES(5);
		TILE_CASES(6);
		TILE_CASES(7);
		TILE_CASES(8);
	}
}

/* ---- Transposing and packing ---- */

/* 16 x 16 elements: each round interleaves the halves (Stone: "Parallel processing with the
   perfect shuffle", 1971). */
INLINE void transpose(__m512 x[WIDTH])
{
	const __m512i low =
		_mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
	const __m512i high =
		_mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
	UNROLL
	for (int round = 0; round < 4; round++) {
		__m512 y[WIDTH];
		UNROLL
		for (int i = 0; i < WIDTH / 2; i++) {
			y[2 * i] = _mm512_permutex2var_ps(x[i], low, x[i + WIDTH / 2]);
			y[2 * i + 1] = _mm512_permutex2var_ps(x[i], high, x[i + WIDTH / 2]);
		}
		UNROLL
		for (int i = 0; i < WIDTH; i++)
			x[i] = y[i];
	}
}

/* Rows of a square, and zeros behind them: at most `rows`, of at most `columns`. */
INLINE void load_square(const float *from, size_t pitch, int rows, int columns, __m512 x[WIDTH])
{
	if (rows >= WIDTH && columns >= WIDTH) {
		UNROLL
		for (int r = 0; r < WIDTH; r++)
			x[r] = _mm512_loadu_ps(from + r * pitch);
		return;
	}
	for (int r = 0; r < WIDTH; r++)
		x[r] = r < rows ? load_left(from + r * pitch, columns) : _mm512_setzero_ps();
}

/* to[depth][vectors * WIDTH] of the columns of b from `from` on, of which `left` count. Behind
   these are zeros. */
static void pack_panel(
	const struct matrix *b, const float *from, int vectors, int depth, int left, float *to)
{
	size_t pitch = b->pitch, width = (size_t)vectors * WIDTH;
	if (b->layout == AS_IS) {
		for (int k = 0; k < depth; k++, from += pitch, to += width)
			for (int v = 0; v < vectors; v++)
				_mm512_storeu_ps(to + v * WIDTH,
					load_left(from + v * WIDTH, left - v * WIDTH));
		return;
	}
	for (int v = 0; v < vectors; v++, from += WIDTH * pitch, to += WIDTH, left -= WIDTH)
		for (int k = 0; k < depth; k += WIDTH) {
			__m512 x[WIDTH];
			load_square(from + k, pitch, left, depth - k, x);
			transpose(x);
			for (int i = 0; i < WIDTH && k + i < depth; i++)
				_mm512_storeu_ps(to + (k + i) * width, x[i]);
		}
}

/* The result of x^T, where x is [columns][x_pitch]. Its pitch is a multiple of vectors. */
static void put_transposed(const struct task *task, const float *x, size_t x_pitch)
{
	struct result to = task->result;
	for (int j = 0; j < task->columns; j += WIDTH)
		for (int i = 0; i < task->rows; i += WIDTH) {
			__m512 square[WIDTH];
			load_square(x + j * x_pitch + i, x_pitch, task->columns - j, WIDTH, square);
			transpose(square);
			for (int r = 0; r < WIDTH && i + r < task->rows; r++)
				put(square[r], to, to.c + (i + r) * to.pitch + j,
					task->columns - j);
		}
}

/* ---- A product ---- */

/* Where a matrix has element (row, column). */
INLINE const float *at(const struct matrix *matrix, int row, int column)
{
	return matrix->layout == AS_IS ? matrix->data + (size_t)row * matrix->pitch + column
				       : matrix->data + (size_t)column * matrix->pitch + row;
}

/* All rows meet some columns of b: first the tiles with one row more, if any, then the others. */
static void multiply_rows(
	const struct task *task, struct factors from, int column, int vectors, int depth, bool adds)
{
	int tile_count = (task->rows + TILE_ROWS - 1) / TILE_ROWS;
	int larger = task->rows % tile_count;
	struct result to = task->result;
	to.c += column;
	to.adds = adds;
	for (int t = 0, count; t < tile_count; t += count) {
		int rows = part_size(task->rows, TILE_ROWS, t);
		count = t < larger ? larger : tile_count - t;
		any_tiles(count, rows, vectors, depth, from, to, task->columns - column);
		from.a += (size_t)count * rows * from.a_row;
		to.c += (size_t)count * rows * to.pitch;
	}
}

/* One depth of the inner side. The last columns of b are packed, and all of a transposed one. */
static void multiply_depth(const struct task *task, int k, int depth, float *panel)
{
	const struct matrix *a = &task->a, *b = &task->b;
	int all_vectors = (task->columns + WIDTH - 1) / WIDTH;
	struct factors from = { .a = at(a, 0, k),
		.a_row = a->layout == AS_IS ? a->pitch : 1,
		.a_step = a->layout == AS_IS ? 1 : a->pitch };
	for (int v = 0, vectors, p = 0; v < all_vectors; v += vectors, p++) {
		int column = v * WIDTH, left = task->columns - column;
		vectors = part_size(all_vectors, TILE_VECTORS, p);
		from.b = at(b, k, column);
		from.b_step = b->pitch;
		if (b->layout == TRANSPOSED || left < vectors * WIDTH) {
			pack_panel(b, from.b, vectors, depth, left, panel);
			from.b = panel;
			from.b_step = (size_t)vectors * WIDTH;
		}
		multiply_rows(task, from, column, vectors, depth, task->result.adds || k > 0);
	}
}

static void multiply_task(const struct task *task, float *panel)
{
	for (int k = 0, depth, p = 0; k < task->inner; k += depth, p++) {
		depth = part_size(task->inner, DEPTH, p);
		multiply_depth(task, k, depth, panel);
	}
}

static struct matrix transposed(struct matrix matrix)
{
	matrix.layout = matrix.layout == AS_IS ? TRANSPOSED : AS_IS;
	return matrix;
}

/* Whether c^T = b^T a^T is computed, and transposed at the end: the way on which fewer elements are
   transposed. */
static bool turns(const struct product *p)
{
	size_t columns = p->columns, rows = p->rows, inner = p->inner;
	size_t straight = p->b.layout == TRANSPOSED ? columns * inner : 0;
	size_t turned = (p->a.layout == AS_IS ? rows * inner : 0) + rows * columns;
	return turned < straight;
}

/* Columns of c^T, to a multiple of vectors. */
static size_t turned_pitch(const struct product *p)
{
	return ((size_t)p->rows + WIDTH - 1) / WIDTH * WIDTH;
}

static size_t scratch_of(const struct product *p)
{
	return PANEL + (turns(p) ? TURNED_ROWS * turned_pitch(p) : 0);
}

static struct result result_of(const struct product *p)
{
	return (struct result){ p->c.data, p->c.pitch, p->beta != 0, p->alpha };
}

static void multiply_turned(const struct product *p, float *scratch)
{
	float *turned = scratch + PANEL;
	size_t pitch = turned_pitch(p);
	for (int j = 0, count, part = 0; j < p->columns; j += count, part++) {
		count = part_size(p->columns, TURNED_ROWS, part);
		struct task task = { count, p->rows, p->inner, transposed(p->b), transposed(p->a),
			{ .c = turned, .pitch = pitch, .alpha = 1 } };
		task.a.data = (float *)at(&p->b, 0, j);
		multiply_task(&task, scratch);
		task = (struct task){ .rows = p->rows, .columns = count, .result = result_of(p) };
		task.result.c += j;
		put_transposed(&task, turned, pitch);
	}
}

static void multiply(const struct product *p, float *scratch)
{
	const struct task task = { p->rows, p->columns, p->inner, p->a, p->b, result_of(p) };
	if (turns(p))
		multiply_turned(p, scratch);
	else
		multiply_task(&task, scratch);
}

const struct product_kernels cpu_product_avx512 = {
	.scratch = scratch_of, .multiply = multiply, .depth = DEPTH
};

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
