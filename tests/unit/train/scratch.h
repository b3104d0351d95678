/* A directory for a test to write into. */
#ifndef TRAIN_SCRATCH_H
#define TRAIN_SCRATCH_H

/* Makes one; scratch_path() names files in it. */
void scratch_make(void);
/* Removes it with all that is in it. */
void scratch_remove(void);
/* "DIR/name", valid until the 32nd call after; "" is the directory itself. */
const char *scratch_path(const char *name);
/* Writes a file. */
void scratch_write(const char *name, const void *bytes, unsigned long size);
/* How many files and directories lie under it. */
int scratch_count(void);

#endif
