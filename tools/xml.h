/* XML files of other tools, element by element. Declarations of a DOCTYPE are refused. */
#ifndef TOOLS_XML_H
#define TOOLS_XML_H

#include <stddef.h>
#include <stdint.h>

/* A file that is being read, at one of its elements. Used by one thread. */
struct xml {
	const char *name; /* of the file, for reasons */
	void *data; /* the caller's */
	int line; /* of the element, from 1 */
	int depth; /* of the element: the root's is 0 */
	const char **attributes; /* of the element: names and values in turn, then NULL */
};

/* The caller, at each begin and end of an element. An error ends the reading. end may be NULL. */
struct xml_reader {
	int (*begin)(struct xml *xml, const char *element);
	int (*end)(struct xml *xml, const char *element);
};

/*
 * Reads text[size]; the caller sets `name` and `data` before. RONDO_INVALID with FILE:LINE where it
 * is no XML; RONDO_UNSUPPORTED where the build has no expat; RONDO_MEMORY; or a reader's error.
 * Afterwards `line` is that of the end, or of the error.
 */
int xml_read(struct xml *xml, const struct xml_reader *reader, const char *text, size_t size);

/* RONDO_INVALID, with FILE:LINE of the element. */
int xml_refuse(const struct xml *xml, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same for an element that lies where it should not. */
int xml_misplaced(const struct xml *xml, const char *element);

/* ---- Attributes of the element ---- */

/* NULL: it has none of this name. */
const char *xml_attribute(const struct xml *xml, const char *name);
/* RONDO_INVALID where it is missing. */
int xml_text(const struct xml *xml, const char *name, const char **text);
/* A whole number; `standard`, where that is not below `least`, stands for a missing one.
   RONDO_INVALID for any other text. */
int xml_wide(const struct xml *xml, const char *name, int64_t least, int64_t most, int64_t standard,
	int64_t *number);
int xml_int(
	const struct xml *xml, const char *name, int least, int most, int standard, int *number);

#endif
