/* UTF-8: texts of users and of files. */
#ifndef RD_UTF8_H
#define RD_UTF8_H

/*
 * Returns the bytes of the UTF-8 character here; 0 for an invalid one (RFC 3629: no surrogates,
 * nothing overlong).
 */
static inline int rd_utf8_length(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;
	int length = c[0] < 0x80   ? 1
		     : c[0] < 0xc2 ? 0
		     : c[0] < 0xe0 ? 2
		     : c[0] < 0xf0 ? 3
		     : c[0] < 0xf5 ? 4
				   : 0;

	for (int i = 1; i < length; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
		(c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))
		return 0;
	return length;
}

#endif
