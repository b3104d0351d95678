#include "base/nearest.h"

#include <stdio.h>
#include <string.h>

#define LENGTH_MAX 64

/* Not toupper(): the same text must mean the same in every locale. */
static char upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Only three rows of the table are kept: the distances from the start of a to every start of b. */
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
			bool same = upper(at[0]) == upper(b[i - 1]);

			row[i] = least(above[i - 1] + !same, least(above[i], row[i - 1]) + 1);
			if (line > 1 && i > 1 && upper(at[0]) == upper(b[i - 2]) &&
				upper(at[-1]) == upper(b[i - 1]))
				row[i] = least(row[i], before[i - 2] + 1);
		}
	}
	return rows[height % 3][width];
}

void rd_nearest_try(struct rd_nearest *nearest, const char *name)
{
	unsigned distance = edit_distance(nearest->wanted, name);

	if (distance >= nearest->distance)
		return;
	nearest->distance = distance;
	nearest->name = name;
}

const char *rd_nearest_text(const struct rd_nearest *nearest, char text[RD_NEAREST_TEXT])
{
	text[0] = '\0';
	/* A third of the letters may be wrong, and one letter of a short name. */
	if (nearest->distance <= (strlen(nearest->wanted) + 2) / 3)
		snprintf(text, RD_NEAREST_TEXT, "; did you mean %.40s?", nearest->name);
	return text;
}

static const char *next_letter(const char *at)
{
	return at + strspn(at, "_-");
}

bool rd_same_name(const char *a, const char *b)
{
	for (;;) {
		a = next_letter(a);
		b = next_letter(b);
		if (upper(*a) != upper(*b))
			return false;
		if (!*a)
			return true;
		a++;
		b++;
	}
}
