#include "secure/records.h"

#include <stdlib.h>
#include <string.h>

#include "secure/openssl.h"

#define KEY_SIZE 16
#define NONCE_SIZE 12
#define TAG_SIZE 16
/* The version that records of TLS 1.3 have, which is that of 1.2. */
#define VERSION 0x0303

struct rd_records {
	EVP_CIPHER_CTX *cipher;
	unsigned char secret[RD_RECORDS_SECRET_SIZE];
	unsigned char nonce[NONCE_SIZE]; /* of record 0 */
	uint64_t count;
	bool seals;
};

/* ---- Keys (RFC 8446, 7) -------------------------------------------------------------------- */

/* HKDF-Expand-Label without a context, of at most 32 bytes: one block of HMAC-SHA-256. */
static bool expand(const unsigned char secret[RD_RECORDS_SECRET_SIZE], const char *label,
	unsigned char *derived, size_t size)
{
	unsigned char info[64] = { 0, (unsigned char)size, (unsigned char)(6 + strlen(label)) };
	unsigned char block[RD_RECORDS_SECRET_SIZE];
	size_t at = 3;

	memcpy(info + at, "tls13 ", 6);
	at += 6;
	memcpy(info + at, label, strlen(label));
	at += strlen(label);
	info[at++] = 0; /* of the context */
	info[at++] = 1; /* the block */
	if (!rd_openssl.HMAC(
		    rd_openssl.EVP_sha256(), secret, RD_RECORDS_SECRET_SIZE, info, at, block, NULL))
		return false;
	memcpy(derived, block, size);
	rd_openssl.OPENSSL_cleanse(block, sizeof(block));
	return true;
}

static bool take_secret(struct rd_records *records)
{
	unsigned char key[KEY_SIZE];
	bool taken = expand(records->secret, "key", key, sizeof(key)) &&
		     expand(records->secret, "iv", records->nonce, sizeof(records->nonce)) &&
		     rd_openssl.EVP_CipherInit_ex(records->cipher, rd_openssl.EVP_aes_128_gcm(),
			     NULL, key, NULL, records->seals);

	rd_openssl.OPENSSL_cleanse(key, sizeof(key));
	records->count = 0;
	return taken;
}

bool rd_records_update(struct rd_records *records)
{
	return expand(records->secret, "traffic upd", records->secret, sizeof(records->secret)) &&
	       take_secret(records);
}

struct rd_records *rd_records_create(const unsigned char secret[RD_RECORDS_SECRET_SIZE], bool seals)
{
	struct rd_records *records = calloc(1, sizeof(*records));

	if (!records)
		return NULL;
	records->seals = seals;
	records->cipher = rd_openssl.EVP_CIPHER_CTX_new();
	memcpy(records->secret, secret, sizeof(records->secret));
	if (records->cipher && take_secret(records))
		return records;
	rd_records_destroy(records);
	return NULL;
}

void rd_records_destroy(struct rd_records *records)
{
	if (!records)
		return;
	rd_openssl.EVP_CIPHER_CTX_free(records->cipher);
	rd_openssl.OPENSSL_cleanse(records, sizeof(*records));
	free(records);
}

/* ---- Records (RFC 8446, 5.2) --------------------------------------------------------------- */

/* The next record's nonce, and its header, which is authenticated too. */
static bool begin(struct rd_records *records, const unsigned char header[RD_RECORD_HEADER])
{
	unsigned char nonce[NONCE_SIZE];
	int size;

	memcpy(nonce, records->nonce, sizeof(nonce));
	for (int i = 0; i < 8; i++)
		nonce[NONCE_SIZE - 1 - i] ^= (unsigned char)(records->count >> (8 * i));
	records->count++;
	return rd_openssl.EVP_CipherInit_ex(
		       records->cipher, NULL, NULL, NULL, nonce, records->seals) &&
	       rd_openssl.EVP_CipherUpdate(records->cipher, NULL, &size, header, RD_RECORD_HEADER);
}

static bool update(struct rd_records *records, unsigned char *to, const void *from, size_t size)
{
	int done;

	return size == 0 ||
	       rd_openssl.EVP_CipherUpdate(records->cipher, to, &done, from, (int)size);
}

bool rd_records_seal(struct rd_records *records, enum rd_record_type type, const void *content,
	size_t size, unsigned char *record)
{
	size_t length = size + 1 + TAG_SIZE;
	unsigned char last = (unsigned char)type, *sealed = record + RD_RECORD_HEADER;
	int none;

	record[0] = RD_RECORD_DATA;
	record[1] = VERSION >> 8;
	record[2] = VERSION & 255;
	record[3] = (unsigned char)(length >> 8);
	record[4] = (unsigned char)length;
	return begin(records, record) && update(records, sealed, content, size) &&
	       update(records, sealed + size, &last, 1) &&
	       rd_openssl.EVP_CipherFinal_ex(records->cipher, sealed + size + 1, &none) &&
	       rd_openssl.EVP_CIPHER_CTX_ctrl(
		       records->cipher, EVP_CTRL_GCM_GET_TAG, TAG_SIZE, sealed + size + 1) > 0;
}

size_t rd_record_size(const unsigned char header[RD_RECORD_HEADER])
{
	size_t size = RD_RECORD_HEADER + ((size_t)header[3] << 8) + header[4];

	return header[0] == RD_RECORD_DATA && size >= RD_RECORD_OVERHEAD && size <= RD_RECORD_MAX
		       ? size
		       : 0;
}

size_t rd_record_content_size(const unsigned char header[RD_RECORD_HEADER])
{
	return rd_record_size(header) - RD_RECORD_OVERHEAD;
}

int rd_records_open(
	struct rd_records *records, const unsigned char *record, void *content, size_t *size)
{
	size_t left = rd_record_content_size(record);
	const unsigned char *sealed = record + RD_RECORD_HEADER;
	unsigned char type, *opened = content, nothing[TAG_SIZE];
	int none;

	if (!begin(records, record) || !update(records, opened, sealed, left) ||
		!update(records, &type, sealed + left, 1) ||
		rd_openssl.EVP_CIPHER_CTX_ctrl(records->cipher, EVP_CTRL_GCM_SET_TAG, TAG_SIZE,
			(void *)(sealed + left + 1)) <= 0 ||
		rd_openssl.EVP_CipherFinal_ex(records->cipher, nothing, &none) <= 0)
		return -1;
	/* Zeros behind the type are padding. */
	while (type == 0 && left > 0)
		type = opened[--left];
	*size = left;
	return left <= RD_RECORD_CONTENT_MAX ? type : -1;
}
