#include "nearest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LENGTH_MAX 64

static int letter(char c)
{
	return toupper((unsigned char)c);
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Of the table only three rows are kept: the distances from the start of a to every start of b. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned rows[3][LENGTH_MAX + 1];
	size_t width = strnlen(b, LENGTH_MAX), height = strnlen(a, LENGTH_MAX);

	for (unsigned i = 0; i <= width; i++)
		rows[0][i] = i;
	for (unsigned line = 1; line <= height; line++) {
		unsigned *row = rows[line % 3], *above = rows[(line + 2) % 3];
		const unsigned *before = rows[(line + 1) % 3];
		const char *at = a + line - 1;

		row[0] = line;
		for (size_t i = 1; i <= width; i++) {
			bool same = letter(at[0]) == letter(b[i - 1]);

			row[i] = least(above[i - 1] + !same, least(above[i], row[i - 1]) + 1);
			if (line > 1 && i > 1 && letter(at[0]) == letter(b[i - 2]) &&
				letter(at[-1]) == letter(b[i - 1]))
				row[i] = least(row[i], before[i - 2] + 1);
		}
	}
	return rows[height % 3][width];
}

void nearest_try(struct nearest *nearest, const char *name)
{
	unsigned distance = edit_distance(nearest->wanted, name);

	if (distance >= nearest->distance)
		return;
	nearest->distance = distance;
	nearest->name = name;
}

const char *nearest_text(const struct nearest *nearest, char text[NEAREST_TEXT])
{
	text[0] = '\0';
	/* A third of the letters may be wrong, and one of few. */
	if (nearest->distance <= (strlen(nearest->wanted) + 2) / 3)
		snprintf(text, NEAREST_TEXT, "; did you mean %.40s?", nearest->name);
	return text;
}

bool nearest_same(const char *a, const char *b)
{
	for (;; a++, b++) {
		a += strspn(a, "_-");
		b += strspn(b, "_-");
		if (letter(*a) != letter(*b))
			return false;
		if (!*a)
			return true;
	}
}
