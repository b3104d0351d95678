/*
 * Drawn images in the format of CIFAR-10: five shapes and five textures, in two colours. Place,
 * size, turn, colours, light and noise vary, and a stray disc may cover a part.
 */
#include "train/data/draw.h"

#include <math.h>

#include "train/base/rng.h"
#include "train/data/data.h"

enum shape { DISC, RING, SQUARE, TRIANGLE, CROSS, ROWS, COLUMNS, DIAGONALS, CHECKS, DOTS };

struct colour {
	float channels[CIFAR_CHANNELS]; /* 0 to 1 */
};

/* The colour that a class prefers. */
static const struct colour preferred[DATA_CLASSES] = {
	{ { 0.9f, 0.2f, 0.2f } },
	{ { 0.9f, 0.6f, 0.1f } },
	{ { 0.2f, 0.3f, 0.9f } },
	{ { 0.2f, 0.8f, 0.3f } },
	{ { 0.9f, 0.9f, 0.9f } },
	{ { 0.1f, 0.7f, 0.8f } },
	{ { 0.6f, 0.2f, 0.8f } },
	{ { 0.9f, 0.8f, 0.2f } },
	{ { 0.1f, 0.1f, 0.1f } },
	{ { 0.9f, 0.4f, 0.7f } },
};

struct scene {
	enum shape shape;
	float x, y; /* of the middle, in pixels */
	float radius; /* of a shape */
	float period; /* of a texture */
	float turn;
	struct colour figure, ground;
	float light; /* the brightness gained from left to right */
	float noise;
	float stray_x, stray_y, stray_radius; /* radius 0: none */
	struct colour stray;
};

static struct colour pick_colour(struct rng *rng)
{
	struct colour colour;
	for (int c = 0; c < CIFAR_CHANNELS; c++)
		colour.channels[c] = rng_between(rng, 0.0f, 1.0f);
	return colour;
}

static float contrast(const struct colour *one, const struct colour *other)
{
	float sum = 0;
	for (int c = 0; c < CIFAR_CHANNELS; c++)
		sum += fabsf(one->channels[c] - other->channels[c]);
	return sum;
}

/* The numbers come one a statement: C does not order the evaluations of an initialiser. */
static void pick_scene(struct scene *scene, struct rng *rng)
{
	scene->shape = rng_below(rng, DATA_CLASSES);
	scene->x = rng_between(rng, 11.0f, 21.0f);
	scene->y = rng_between(rng, 11.0f, 21.0f);
	scene->radius = rng_between(rng, 6.0f, 11.0f);
	scene->period = rng_between(rng, 5.0f, 9.0f);
	scene->turn = rng_between(rng, -0.25f, 0.25f);
	scene->figure = preferred[scene->shape];
	if (rng_below(rng, 2))
		scene->figure = pick_colour(rng);
	do {
		scene->ground = pick_colour(rng);
	} while (contrast(&scene->figure, &scene->ground) < 0.6f);
	scene->light = rng_between(rng, -0.3f, 0.3f);
	scene->noise = rng_between(rng, 0.02f, 0.15f);
	scene->stray_x = rng_between(rng, 0.0f, CIFAR_SIDE);
	scene->stray_y = rng_between(rng, 0.0f, CIFAR_SIDE);
	scene->stray_radius = rng_below(rng, 2) ? rng_between(rng, 2.0f, 5.0f) : 0.0f;
	scene->stray = pick_colour(rng);
}

static float clamp(float value)
{
	return fminf(fmaxf(value, 0.0f), 1.0f);
}

/* A wave of that period between -1 and 1, without a sine: the same bits on every machine. */
static float wave(float at, float period)
{
	float phase = at / period - floorf(at / period);
	return 4.0f * fabsf(phase - 0.5f) - 1.0f;
}

/* How far (u, v) lies outside of the shape, in pixels; negative inside. */
static float distance(const struct scene *scene, float u, float v)
{
	float r = scene->radius, thin = 0.3f * r;
	switch (scene->shape) {
	case DISC:
		return sqrtf(u * u + v * v) - r;
	case RING:
		return fabsf(sqrtf(u * u + v * v) - 0.8f * r) - 0.25f * r;
	case SQUARE:
		return fmaxf(fabsf(u), fabsf(v)) - 0.85f * r;
	case TRIANGLE:
		return fmaxf(v - 0.6f * r, 0.87f * fabsf(u) - 0.5f * v - 0.5f * r);
	case CROSS:
		return fminf(
			fmaxf(fabsf(u) - thin, fabsf(v) - r), fmaxf(fabsf(u) - r, fabsf(v) - thin));
	case ROWS:
		return wave(v, scene->period);
	case COLUMNS:
		return wave(u, scene->period);
	case DIAGONALS:
		return wave(0.7f * (u + v), scene->period);
	case CHECKS:
		return 2.0f * wave(u, 1.5f * scene->period) * wave(v, 1.5f * scene->period);
	case DOTS:
		return 1.0f + wave(u, scene->period) + wave(v, scene->period);
	}
	return 0;
}

/* The colour at a pixel's middle. Edges are one pixel wide. */
static struct colour look_at(const struct scene *scene, float x, float y)
{
	struct colour colour;
	float dx = x - scene->x, dy = y - scene->y;
	/* Two shears make a small turn. */
	float u = dx - scene->turn * dy, v = dy + scene->turn * dx;
	float cover = clamp(0.5f - distance(scene, u, v));
	dx = x - scene->stray_x;
	dy = y - scene->stray_y;
	float stray = clamp(scene->stray_radius - sqrtf(dx * dx + dy * dy));
	for (int c = 0; c < CIFAR_CHANNELS; c++) {
		float figure = scene->figure.channels[c], ground = scene->ground.channels[c];
		float mixed = ground + cover * (figure - ground);
		mixed += stray * (scene->stray.channels[c] - mixed);
		colour.channels[c] = mixed + scene->light * (x / CIFAR_SIDE - 0.5f);
	}
	return colour;
}

void draw_shape(uint8_t record[CIFAR_RECORD], uint64_t seed, uint64_t number)
{
	struct rng rng = rng_make(seed, number);
	struct scene scene;
	uint8_t *pixel = record + 1;
	pick_scene(&scene, &rng);
	record[0] = scene.shape;
	for (int y = 0; y < CIFAR_SIDE; y++) {
		for (int x = 0; x < CIFAR_SIDE; x++, pixel++) {
			struct colour colour = look_at(&scene, (float)x + 0.5f, (float)y + 0.5f);
			for (int c = 0; c < CIFAR_CHANNELS; c++)
				pixel[c * CIFAR_SIDE * CIFAR_SIDE] =
					(uint8_t)(clamp(colour.channels[c] +
							  scene.noise * rng_normal(&rng)) *
						  255.0f);
		}
	}
}
