#include "base/environment.h"
#include "base/utf8.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *rd_environment(const char *variable)
{
	size_t length = strlen(variable);

	for (char **entry = environ; entry && *entry; entry++)
		if (!strncmp(*entry, variable, length) && (*entry)[length] == '=')
			return (*entry)[length + 1] ? *entry + length + 1 : NULL;
	return NULL;
}

/* Not strtoll(): it skips blanks, and depends on the locale. */
const char *rd_read_number(int64_t *number, const char *text)
{
	bool negative = *text == '-';
	int64_t value = 0;

	text += negative;
	if (*text < '0' || *text > '9')
		return NULL;
	for (; *text >= '0' && *text <= '9'; text++)
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, *text - '0', &value))
			return NULL;
	*number = negative ? -value : value;
	return text;
}

/* As rd_utf8_length(), of a text that ends after `length` bytes. */
static size_t character_at(const char *text, size_t length)
{
	char part[5] = "";

	memcpy(part, text, length < 4 ? length : 4);
	return (size_t)rd_utf8_length(part);
}

void rd_disarm(char *text, size_t length)
{
	for (size_t i = 0, size; i<length; i += size> 0 ? size : 1) {
		size = character_at(text + i, length - i);
		if (size == 0 || (unsigned char)text[i] < ' ' || text[i] == 127)
			text[i] = '?';
	}
}

const char *rd_quotable(char quote[41], const char *text)
{
	snprintf(quote, 41, "%.40s", text);
	rd_disarm(quote, strlen(quote));
	return quote;
}
