/*
 * Records of TLS 1.3 (RFC 8446, 5): one direction of a connection, after OpenSSL's handshake. They
 * are opened into the caller's buffer, and sealed from it: OpenSSL's own would be copied once more
 * at each end, and take half as much time again.
 *
 * One thread at a time. After rd_openssl_load().
 */
#ifndef RD_RECORDS_H
#define RD_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RD_RECORDS_SECRET_SIZE 32 /* of SHA-256 */
#define RD_RECORD_HEADER 5
#define RD_RECORD_CONTENT_MAX (16 << 10)
/* A record that we seal has this beside its content: header, type and tag. */
#define RD_RECORD_OVERHEAD (RD_RECORD_HEADER + 1 + 16)
/* The longest record of a peer, with header and padding. */
#define RD_RECORD_MAX (RD_RECORD_HEADER + RD_RECORD_CONTENT_MAX + 256)

enum rd_record_type { RD_RECORD_ALERT = 21, RD_RECORD_HANDSHAKE = 22, RD_RECORD_DATA = 23 };

struct rd_records;

/* AES-128-GCM, with keys of a traffic secret: to seal, or to open. NULL: no memory. */
struct rd_records *rd_records_create(
	const unsigned char secret[RD_RECORDS_SECRET_SIZE], bool seals);
/* Wipes the keys. NULL is none. */
void rd_records_destroy(struct rd_records *records);

/* Goes on with the next secret, after a KeyUpdate. False: OpenSSL has failed. */
bool rd_records_update(struct rd_records *records);

/* Seals at most RD_RECORD_CONTENT_MAX bytes as one record, which has RD_RECORD_OVERHEAD bytes more.
   False: OpenSSL has failed. */
bool rd_records_seal(struct rd_records *records, enum rd_record_type type, const void *content,
	size_t size, unsigned char *record);

/* The size of the record that begins with this header; 0: no record begins so. */
size_t rd_record_size(const unsigned char header[RD_RECORD_HEADER]);
/* The size of its content, with padding that the peer may have added. */
size_t rd_record_content_size(const unsigned char header[RD_RECORD_HEADER]);

/*
 * Opens a whole record into `content`, which has room for rd_record_content_size() bytes, or is the
 * place behind the header. Returns its type, and sets *size without the padding. -1: it is not the
 * next record of the peer, and `content` has arbitrary bytes.
 */
int rd_records_open(
	struct rd_records *records, const unsigned char *record, void *content, size_t *size);

#endif
