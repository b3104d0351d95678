/* The end of a program that prints on standard output. */
#ifndef TOOLS_PRINTED_H
#define TOOLS_PRINTED_H

#include <stdbool.h>

/* Whether all of it has been written. False, as on a full disk: a line on stderr says so, which
   begins with the tool's name. */
bool printed_all(const char *tool);

#endif
