/*
 * Drawn digits. Each is a few strokes through some points; each image moves the points, then the
 * whole, and varies slant, thickness, ink and noise.
 */
#include "train/data/draw.h"

#include <math.h>

#include "train/base/rng.h"
#include "train/data/data.h"

#define POINTS_MAX 13
#define STROKES_MAX 3
#define SPAN_PARTS 4 /* line segments between two points of a stroke */

struct point {
	float x, y;
};

struct stroke {
	int count;
	struct point points[POINTS_MAX]; /* x to the right, y down, within 0 to 100 */
};

struct glyph {
	int count;
	struct stroke strokes[STROKES_MAX];
};

/* clang-format off */
static const struct glyph digits[DATA_CLASSES] = {
	{ 1, { { 9, { {50,2}, {82,18}, {90,50}, {82,82}, {50,98}, {18,82}, {10,50}, {18,18}, {50,2} } } } },
	{ 2, { { 2, { {30,24}, {55,3} } }, { 3, { {55,3}, {53,50}, {54,98} } } } },
	{ 2, { { 7, { {14,26}, {32,5}, {65,3}, {84,25}, {72,50}, {42,76}, {12,97} } }, { 2, { {12,97}, {90,96} } } } },
	{ 2, { { 5, { {15,12}, {46,2}, {78,14}, {74,37}, {42,47} } }, { 5, { {42,47}, {80,58}, {87,80}, {54,98}, {12,86} } } } },
	{ 3, { { 2, { {62,2}, {9,66} } }, { 2, { {9,66}, {92,66} } }, { 2, { {68,34}, {66,98} } } } },
	{ 3, { { 2, { {82,4}, {24,4} } }, { 2, { {24,4}, {20,45} } }, { 5, { {20,45}, {52,37}, {86,60}, {62,95}, {12,90} } } } },
	{ 1, { { 9, { {76,4}, {42,22}, {17,54}, {16,82}, {46,98}, {82,88}, {83,62}, {54,50}, {20,66} } } } },
	{ 2, { { 2, { {9,5}, {90,4} } }, { 3, { {90,4}, {60,46}, {40,98} } } } },
	{ 1, { { 13, { {50,48}, {20,32}, {22,9}, {50,2}, {78,9}, {80,32}, {50,48}, {16,68}, {18,92}, {50,98}, {82,92}, {84,68}, {50,48} } } } },
	{ 1, { { 9, { {82,30}, {52,50}, {19,38}, {20,11}, {52,2}, {80,14}, {83,40}, {76,70}, {50,98} } } } },
};
/* clang-format on */

/* The changes of one image to its digit. */
struct hand {
	float width, height; /* of the digit, in pixels */
	float x, y; /* of its middle */
	float slant, turn;
	float wobble; /* of each point, of 100 */
	float radius; /* of the pen, in pixels */
	float ink; /* 0 to 1 */
};

struct canvas {
	float ink[DRAW_SIZE][DRAW_SIZE]; /* [y][x], 0 to 1 */
};

static struct hand pick_hand(struct rng *rng)
{
	return (struct hand){
		.width = rng_between(rng, 9.0f, 17.0f),
		.height = rng_between(rng, 14.0f, 21.0f),
		.x = 14.0f + rng_between(rng, -3.5f, 3.5f),
		.y = 14.0f + rng_between(rng, -3.0f, 3.0f),
		.slant = rng_between(rng, -0.35f, 0.45f),
		.turn = rng_between(rng, -0.22f, 0.22f),
		.wobble = rng_between(rng, 2.0f, 7.0f),
		.radius = rng_between(rng, 0.6f, 1.7f),
		.ink = rng_between(rng, 0.5f, 1.0f),
	};
}

/* Maps the glyph's box to the canvas. Two shears make a small turn without a sine: the same bits on
   every machine. */
static struct point place(struct point point, const struct hand *hand, struct rng *rng)
{
	float x = (point.x - 50.0f + hand->wobble * rng_normal(rng)) * 0.01f * hand->width;
	float y = (point.y - 50.0f + hand->wobble * rng_normal(rng)) * 0.01f * hand->height;
	x -= hand->slant * y;
	return (struct point){ hand->x + x - hand->turn * y, hand->y + y + hand->turn * x };
}

static int clamp(int value, int low, int high)
{
	return value < low ? low : value > high ? high : value;
}

/* The distance of p from the segment a-b. */
static float distance(struct point p, struct point a, struct point b)
{
	float dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
	float along = length > 0 ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / length : 0;
	along = along < 0 ? 0 : along > 1 ? 1 : along;
	dx = p.x - (a.x + along * dx);
	dy = p.y - (a.y + along * dy);
	return sqrtf(dx * dx + dy * dy);
}

/* The pen's edge is one pixel wide, as antialiasing. Where strokes cross, the darker pixel
   stays. */
static void draw_line(
	struct canvas *canvas, struct point a, struct point b, const struct hand *hand)
{
	float reach = hand->radius + 1.0f;
	int left = clamp((int)floorf(fminf(a.x, b.x) - reach), 0, DRAW_SIZE);
	int right = clamp((int)ceilf(fmaxf(a.x, b.x) + reach), 0, DRAW_SIZE);
	int top = clamp((int)floorf(fminf(a.y, b.y) - reach), 0, DRAW_SIZE);
	int bottom = clamp((int)ceilf(fmaxf(a.y, b.y) + reach), 0, DRAW_SIZE);
	for (int y = top; y < bottom; y++) {
		for (int x = left; x < right; x++) {
			struct point middle = { (float)x + 0.5f, (float)y + 0.5f };
			float cover = hand->radius + 0.5f - distance(middle, a, b);
			float ink = hand->ink * fminf(fmaxf(cover, 0.0f), 1.0f);
			canvas->ink[y][x] = fmaxf(canvas->ink[y][x], ink);
		}
	}
}

/* The Catmull-Rom curve through b and c, which starts along a-c and ends along b-d. */
static float curve(float a, float b, float c, float d, float t)
{
	return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

static void draw_stroke(
	struct canvas *canvas, const struct point *points, int count, const struct hand *hand)
{
	for (int i = 0; i + 1 < count; i++) {
		struct point a = points[clamp(i - 1, 0, count - 1)], b = points[i];
		struct point c = points[i + 1], d = points[clamp(i + 2, 0, count - 1)];
		struct point from = b;
		for (int part = 1; part <= SPAN_PARTS; part++) {
			float t = (float)part / SPAN_PARTS;
			struct point to = { curve(a.x, b.x, c.x, d.x, t),
				curve(a.y, b.y, c.y, d.y, t) };
			draw_line(canvas, from, to, hand);
			from = to;
		}
	}
}

static void draw_glyph(
	struct canvas *canvas, const struct glyph *glyph, const struct hand *hand, struct rng *rng)
{
	struct point end = { 0 };
	for (int s = 0; s < glyph->count; s++) {
		const struct stroke *stroke = &glyph->strokes[s];
		struct point points[POINTS_MAX];
		for (int i = 0; i < stroke->count; i++)
			points[i] = place(stroke->points[i], hand, rng);
		/* The wobble must not separate strokes that meet in the glyph. */
		const struct stroke *last = s ? &glyph->strokes[s - 1] : stroke;
		struct point met = last->points[last->count - 1];
		if (s && met.x == stroke->points[0].x && met.y == stroke->points[0].y)
			points[0] = end;
		draw_stroke(canvas, points, stroke->count, hand);
		end = points[stroke->count - 1];
	}
}

/* Half of the images have a stray line, paler than the digit. */
static void draw_scratch(struct canvas *canvas, const struct hand *hand, struct rng *rng)
{
	struct hand scratch = { .radius = rng_between(rng, 0.3f, 1.0f),
		.ink = hand->ink * rng_between(rng, 0.4f, 0.9f) };
	struct point a = { rng_between(rng, 0, DRAW_SIZE), rng_between(rng, 0, DRAW_SIZE) };
	struct point b = { a.x + rng_between(rng, -12, 12), a.y + rng_between(rng, -12, 12) };
	if (rng_below(rng, 2))
		draw_line(canvas, a, b, &scratch);
}

int draw_digit(uint8_t image[DRAW_SIZE * DRAW_SIZE], uint64_t seed, uint64_t number)
{
	struct rng rng = rng_make(seed, number);
	struct canvas canvas = { 0 };
	int digit = rng_below(&rng, DATA_CLASSES);
	struct hand hand = pick_hand(&rng);
	float noise = rng_between(&rng, 0.02f, 0.18f);
	draw_glyph(&canvas, &digits[digit], &hand, &rng);
	draw_scratch(&canvas, &hand, &rng);
	for (int y = 0; y < DRAW_SIZE; y++) {
		for (int x = 0; x < DRAW_SIZE; x++) {
			float ink = canvas.ink[y][x] + noise * rng_normal(&rng);
			image[y * DRAW_SIZE + x] =
				(uint8_t)(fminf(fmaxf(ink, 0.0f), 1.0f) * 255.0f);
		}
	}
	return digit;
}

void draw_coloured_digit(uint8_t record[CIFAR_RECORD], uint64_t seed, uint64_t number)
{
	enum { AREA = CIFAR_SIDE * CIFAR_SIDE, BORDER = (CIFAR_SIDE - DRAW_SIZE) / 2 };
	uint8_t image[DRAW_SIZE * DRAW_SIZE], *pixels = record + 1;
	struct rng rng = rng_make(~seed, number);
	record[0] = (uint8_t)draw_digit(image, seed, number);
	for (int c = 0; c < CIFAR_CHANNELS; c++) {
		float ground = rng_between(&rng, 40.0f, 120.0f);
		float ink = rng_between(&rng, 170.0f, 255.0f);
		for (int i = 0; i < AREA; i++)
			pixels[c * AREA + i] = (uint8_t)ground;
		for (int i = 0; i < DRAW_SIZE * DRAW_SIZE; i++) {
			int y = BORDER + i / DRAW_SIZE, x = BORDER + i % DRAW_SIZE;
			pixels[c * AREA + y * CIFAR_SIDE + x] =
				(uint8_t)(ground + (float)image[i] / 255.0f * (ink - ground));
		}
	}
}
