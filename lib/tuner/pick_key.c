#include "tuner/pick.h"

#define CLASSES_AN_OCTAVE 4
#define SIZE_CLASSES (64 * CLASSES_AN_OCTAVE)
/* The numbers of calls for which nothing is fixed. */
#define KEYS (RD_COLLECTIVE_COUNT * 2 * RD_TYPE_CLASS_COUNT * SIZE_CLASSES)

/* The number of a size's class: its highest bit, and the two below. */
static int class_of(uint64_t size)
{
	int top;

	if (size < CLASSES_AN_OCTAVE)
		return (int)size;
	top = 63 - __builtin_clzll(size);
	return top * CLASSES_AN_OCTAVE + (int)(size >> (top - 2) & 3);
}

uint64_t rd_size_class_least(uint64_t size)
{
	int top;

	if (size < CLASSES_AN_OCTAVE)
		return size;
	top = 63 - __builtin_clzll(size);
	return size >> (top - 2) << (top - 2);
}

uint32_t rd_pick_key(enum rd_collective collective, uint64_t block_size, enum rd_type_class type,
	bool peers_mapped, int fixed)
{
	uint32_t kind = ((uint32_t)collective * 2 + peers_mapped) * RD_TYPE_CLASS_COUNT + type;

	return (uint32_t)fixed * KEYS + kind * SIZE_CLASSES + (uint32_t)class_of(block_size);
}

enum rd_collective rd_pick_key_collective(uint32_t key)
{
	return key % KEYS / (2 * RD_TYPE_CLASS_COUNT * SIZE_CLASSES);
}

uint64_t rd_pick_key_least(uint32_t key)
{
	int class = (int)(key % SIZE_CLASSES), top = class / CLASSES_AN_OCTAVE;

	return class < 2 * CLASSES_AN_OCTAVE ? (uint64_t) class
					     : (4ull + class % CLASSES_AN_OCTAVE) << (top - 2);
}
