/* A file for the secrets of the jobs that a test starts: RONDO_SECRET_FILE, in the environment. */
#ifndef SECRET_FILE_H
#define SECRET_FILE_H

/* For .init and .fini of a suite. The file does not exist at first. */
void secret_file_use(void);
void secret_file_remove(void);

#endif
