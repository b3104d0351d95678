/* A tree of small files in /tmp, like those of sysfs: one at a time in a test program. */
#ifndef TEST_FILE_TREE_H
#define TEST_FILE_TREE_H

extern char tree_root[64]; /* the path of the tree that is open */
extern char tree_file[80]; /* a path in it, for a file that the test or its program writes */

void tree_begin(void);
/* Removes the tree with all its files. */
void tree_end(void);

/* Writes a file below the root: the text and an end of line. */
void tree_put(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Makes a link below the root to another path below it, or to a target that begins with "../". */
void tree_link(const char *link, const char *target);

#endif
