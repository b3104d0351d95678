/* Hashes: FNV-1a for our own files and parameters, MD5 for published data sets. */
#ifndef TRAIN_HASH_H
#define TRAIN_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START 0xcbf29ce484222325u

/* FNV-1a, 64 bits; continues `hash`, which is HASH_START at first. */
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size);

/* The MD5 (RFC 1321) of a file as 32 hex digits and a 0. Fails when the file cannot be read. */
int hash_md5_file(char hex[33], const char *path);

#endif
