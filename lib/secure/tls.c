#include "secure/tls.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fork_lock.h"
#include "secure/openssl.h"
#include "secure/records.h"

/* A peer's part of the handshake takes some 500 bytes. */
#define HANDSHAKE_MAX 4096
/* Encrypted bytes go to the socket, and come from it, so many at a time. A small batch is on its
   way while this rank encrypts the next. */
#define OUT_BATCH (2 * RD_RECORD_MAX)
#define IN_BATCH (4 * RD_RECORD_MAX)
/* AES-GCM is safe for 2^24.5 records of one key (RFC 8446, 5.5). */
#define KEY_RECORDS (1 << 20)

static const char identity[] = "rondo";
static const unsigned char key_update[] = { 24, 0, 0, 1, 0 }; /* which asks for none */

_Static_assert(RD_TLS_RECORD_SIZE == RD_RECORD_CONTENT_MAX, "what the header says of records");

enum side { CLIENT, SERVER };

struct rd_tls {
	int fd;
	enum side side;
	SSL *ssl; /* until the proof */
	unsigned char psk[RD_PSK_SIZE];
	unsigned char secrets[2][RD_RECORDS_SECRET_SIZE]; /* of each side's records */
	bool has_secret[2];
	bool proved;
	bool blocked; /* the socket had too few bytes for the present operation */
	bool ended; /* the socket has reached its end */
	int error; /* errno of the socket; 0: none */
	bool broken; /* the peer breaks the protocol, or has another key */
	size_t handshake_size; /* bytes read before the proof */
	struct rd_records *sealed, *opened; /* from the proof on */
	uint32_t records; /* sealed with the present key */
	bool counts_last; /* the last byte taken is to be counted */
	/* Encrypted bytes that wait for the socket: [out_at, out_size) of out. */
	unsigned char *out;
	size_t out_at, out_size;
	/* Bytes of the socket: [in_at, in_size) of in is encrypted; [text_at, text_end) was. */
	unsigned char *in;
	size_t in_at, in_size, text_at, text_end;
};

/* Made once, and never freed. */
static struct {
	struct rd_fork_lock lock;
	SSL_CTX *context;
	BIO_METHOD *socket;
} shared = { .lock = RD_FORK_LOCK(RD_FORK_LEAF) };

/* ---- The key ------------------------------------------------------------------------------- */

static SSL_SESSION *key_session(SSL *ssl)
{
	static const unsigned char aes_128_gcm_sha256[] = { 0x13, 0x01 };
	const struct rd_tls *tls = rd_openssl.SSL_get_ex_data(ssl, 0);
	const SSL_CIPHER *cipher = rd_openssl.SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
	SSL_SESSION *session = rd_openssl.SSL_SESSION_new();

	if (session && cipher &&
		rd_openssl.SSL_SESSION_set1_master_key(session, tls->psk, sizeof(tls->psk)) &&
		rd_openssl.SSL_SESSION_set_cipher(session, cipher) &&
		rd_openssl.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		return session;
	rd_openssl.SSL_SESSION_free(session);
	return NULL;
}

static int offer_key(SSL *ssl, const EVP_MD *digest, const unsigned char **id, size_t *id_size,
	SSL_SESSION **session)
{
	(void)digest; /* the key's cipher has SHA-256 */
	*id = (const unsigned char *)identity;
	*id_size = sizeof(identity);
	*session = key_session(ssl);
	return *session != NULL;
}

/* No session: without a certificate, the handshake then fails. */
static int find_key(SSL *ssl, const unsigned char *id, size_t id_size, SSL_SESSION **session)
{
	bool known = id_size == sizeof(identity) && memcmp(id, identity, id_size) == 0;

	*session = known ? key_session(ssl) : NULL;
	return *session || !known;
}

/* OpenSSL tells its secrets by lines such as "CLIENT_TRAFFIC_SECRET_0", the client's random number
   and the secret, in hexadecimal digits. */
static void take_secret(const SSL *ssl, const char *line)
{
	static const char *const labels[] = { "CLIENT_TRAFFIC_SECRET_0 ",
		"SERVER_TRAFFIC_SECRET_0 " };
	static const char digits[] = "0123456789abcdef";
	struct rd_tls *tls = rd_openssl.SSL_get_ex_data(ssl, 0);
	const char *text = strrchr(line, ' ');
	int side = strncmp(line, labels[SERVER], strlen(labels[SERVER])) == 0 ? SERVER : CLIENT;

	if (strncmp(line, labels[side], strlen(labels[side])) != 0 ||
		strspn(text + 1, digits) != 2 * RD_RECORDS_SECRET_SIZE)
		return;
	for (int i = 0; i < RD_RECORDS_SECRET_SIZE; i++)
		tls->secrets[side][i] =
			(unsigned char)((strchr(digits, text[2 * i + 1]) - digits) << 4 |
					(strchr(digits, text[2 * i + 2]) - digits));
	tls->has_secret[side] = true;
}

/* ---- The socket ---------------------------------------------------------------------------- */

static int socket_read(BIO *bio, char *bytes, int size)
{
	struct rd_tls *tls = rd_openssl.BIO_get_data(bio);
	size_t most = (size_t)size;
	ssize_t got;

	rd_openssl.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
	if (!tls->proved && most > HANDSHAKE_MAX - tls->handshake_size)
		most = HANDSHAKE_MAX - tls->handshake_size;
	if (most == 0) {
		tls->broken = true;
		return -1;
	}
	got = recv(tls->fd, bytes, most, MSG_DONTWAIT);
	if (got > 0 && !tls->proved)
		tls->handshake_size += (size_t)got;
	if (got == 0)
		tls->ended = true;
	if (got >= 0)
		return (int)got;
	if (errno == EAGAIN || errno == EINTR) {
		tls->blocked = true;
		rd_openssl.BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
	} else {
		tls->error = errno;
	}
	return -1;
}

static bool has_room(const struct rd_tls *tls)
{
	return OUT_BATCH - tls->out_size >= RD_RECORD_MAX;
}

/* To our buffer alone. A peer's bytes make TLS answer: more than it has room for is an attack. */
static int socket_write(BIO *bio, const char *bytes, int size)
{
	struct rd_tls *tls = rd_openssl.BIO_get_data(bio);

	rd_openssl.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
	if (OUT_BATCH - tls->out_size < (size_t)size) {
		tls->broken = true;
		return -1;
	}
	memcpy(tls->out + tls->out_size, bytes, (size_t)size);
	tls->out_size += (size_t)size;
	return size;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
	(void)bio;
	(void)number;
	(void)pointer;
	return command == BIO_CTRL_FLUSH;
}

/* Writes what waits. False: some still does, or the socket has failed (error). */
static bool flush(struct rd_tls *tls)
{
	while (tls->out_at < tls->out_size && !tls->error) {
		ssize_t sent = send(tls->fd, tls->out + tls->out_at, tls->out_size - tls->out_at,
			MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
			tls->error = errno;
		if (sent < 0)
			return false;
		tls->out_at += (size_t)sent;
	}
	tls->out_at = tls->out_size = 0;
	return !tls->error;
}

/* ---- Shared by all sessions ---------------------------------------------------------------- */

static BIO_METHOD *make_socket(void)
{
	BIO_METHOD *method = rd_openssl.BIO_meth_new(BIO_TYPE_SOURCE_SINK | 100, "rondo");

	if (method && rd_openssl.BIO_meth_set_read(method, socket_read) &&
		rd_openssl.BIO_meth_set_write(method, socket_write) &&
		rd_openssl.BIO_meth_set_ctrl(method, socket_control))
		return method;
	return NULL;
}

static SSL_CTX *make_context(void)
{
	SSL_CTX *context = rd_openssl.SSL_CTX_new(rd_openssl.TLS_method());

	if (!context)
		return NULL;
	if (!rd_openssl.SSL_CTX_ctrl(
		    context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) ||
		!rd_openssl.SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") ||
		!rd_openssl.SSL_CTX_ctrl(
			context, SSL_CTRL_SET_GROUPS_LIST, 0, (void *)"X25519:P-256") ||
		!rd_openssl.SSL_CTX_set_num_tickets(context, 0)) {
		rd_openssl.SSL_CTX_free(context);
		return NULL;
	}
	rd_openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
	rd_openssl.SSL_CTX_set_keylog_callback(context, take_secret);
	rd_openssl.SSL_CTX_set_psk_use_session_callback(context, offer_key);
	rd_openssl.SSL_CTX_set_psk_find_session_callback(context, find_key);
	return context;
}

int rd_tls_load(void)
{
	int err = rd_openssl_load();
	bool made;

	if (err)
		return err;
	rd_fork_lock(&shared.lock);
	if (!shared.socket)
		shared.socket = make_socket();
	if (!shared.context)
		shared.context = make_context();
	made = shared.socket && shared.context;
	rd_fork_unlock(&shared.lock);
	return made ? 0 : rd_fail(RONDO_UNSUPPORTED, "OpenSSL here cannot do TLS 1.3");
}

void rd_tls_derive(unsigned char derived[RD_PSK_SIZE], const void *key, size_t key_size,
	const void *text, size_t text_size)
{
	rd_openssl.HMAC(
		rd_openssl.EVP_sha256(), key, (int)key_size, text, text_size, derived, NULL);
}

/* ---- Sessions ------------------------------------------------------------------------------ */

static bool attach_socket(struct rd_tls *tls)
{
	BIO *bio = rd_openssl.BIO_new(shared.socket);

	if (!bio)
		return false;
	rd_openssl.BIO_set_data(bio, tls);
	rd_openssl.BIO_set_init(bio, 1);
	rd_openssl.SSL_set_bio(tls->ssl, bio, bio); /* which frees it */
	return true;
}

struct rd_tls *rd_tls_create(int fd, bool accepts, const unsigned char psk[RD_PSK_SIZE])
{
	struct rd_tls *tls = calloc(1, sizeof(*tls));

	if (!tls)
		return NULL;
	tls->fd = fd;
	tls->side = accepts ? SERVER : CLIENT;
	memcpy(tls->psk, psk, sizeof(tls->psk));
	/* Pages that no byte touches use no memory. */
	tls->out = malloc(OUT_BATCH);
	tls->in = malloc(IN_BATCH);
	tls->ssl = rd_openssl.SSL_new(shared.context);
	if (!tls->out || !tls->in || !tls->ssl || !rd_openssl.SSL_set_ex_data(tls->ssl, 0, tls) ||
		!attach_socket(tls)) {
		rd_tls_destroy(tls);
		return NULL;
	}
	if (accepts)
		rd_openssl.SSL_set_accept_state(tls->ssl);
	else
		rd_openssl.SSL_set_connect_state(tls->ssl);
	return tls;
}

static void end_handshake(struct rd_tls *tls)
{
	rd_openssl.SSL_free(tls->ssl);
	tls->ssl = NULL;
	rd_openssl.OPENSSL_cleanse(tls->psk, sizeof(tls->psk));
	rd_openssl.OPENSSL_cleanse(tls->secrets, sizeof(tls->secrets));
}

void rd_tls_destroy(struct rd_tls *tls)
{
	if (!tls)
		return;
	end_handshake(tls);
	rd_records_destroy(tls->sealed);
	rd_records_destroy(tls->opened);
	free(tls->out);
	free(tls->in);
	free(tls);
}

static int why(const struct rd_tls *tls)
{
	return tls->error ? tls->error : tls->broken ? EPROTO : EAGAIN;
}

/* After an operation that has failed: -1 with errno, or 0 at the peer's end. */
static ssize_t failure(const struct rd_tls *tls)
{
	if (!tls->error && !tls->broken && tls->ended)
		return 0;
	errno = why(tls);
	return -1;
}

static bool make_records(struct rd_tls *tls)
{
	if (!tls->has_secret[CLIENT] || !tls->has_secret[SERVER])
		return false;
	tls->sealed = rd_records_create(tls->secrets[tls->side], true);
	tls->opened = rd_records_create(tls->secrets[!tls->side], false);
	return tls->sealed && tls->opened;
}

/* OpenSSL reads no byte beyond the handshake: after the proof, plain bytes may follow. */
static int shake_hands(struct rd_tls *tls)
{
	tls->blocked = false;
	if (rd_openssl.SSL_do_handshake(tls->ssl) == 1) {
		if (rd_openssl.SSL_session_reused(tls->ssl) && !make_records(tls))
			return ENOMEM;
		tls->proved = rd_openssl.SSL_session_reused(tls->ssl);
		if (tls->proved)
			end_handshake(tls);
		return 0;
	}
	rd_openssl.ERR_clear_error();
	tls->broken |= !tls->error && !tls->blocked && !tls->ended;
	if (failure(tls) == 0)
		errno = ECONNRESET;
	return errno;
}

/* Closing a socket with unread bytes resets the connection: the peer would lose our alert, if TLS
   has one for its bytes. */
static void send_alert(struct rd_tls *tls)
{
	char unread[HANDSHAKE_MAX];

	flush(tls);
	for (int i = 0; i < 4 && recv(tls->fd, unread, sizeof(unread), MSG_DONTWAIT) > 0; i++)
		;
}

int rd_tls_handshake(struct rd_tls *tls)
{
	int number = tls->proved ? 0 : shake_hands(tls);

	if (number == EPROTO)
		send_alert(tls);
	else if (!flush(tls) && !number)
		number = why(tls);
	if (!number && !tls->proved)
		number = EPROTO;
	errno = number;
	return number == EAGAIN ? 0 : number ? -1 : 1;
}

bool rd_tls_has_shown_key(const struct rd_tls *tls)
{
	return tls->proved || rd_openssl.SSL_session_reused(tls->ssl);
}

/* ---- Bytes that come ----------------------------------------------------------------------- */

/* Reads as much as there is room for behind the part of a record that is here. */
static bool read_socket(struct rd_tls *tls)
{
	ssize_t got;

	memmove(tls->in, tls->in + tls->in_at, tls->in_size - tls->in_at);
	tls->in_size -= tls->in_at;
	tls->in_at = 0;
	got = recv(tls->fd, tls->in + tls->in_size, IN_BATCH - tls->in_size, MSG_DONTWAIT);
	if (got > 0)
		tls->in_size += (size_t)got;
	else if (got == 0)
		tls->ended = true;
	else if (errno != EAGAIN && errno != EINTR)
		tls->error = errno;
	return got > 0;
}

/* The next record, whole, and its size; NULL: it has not come, or never will. */
static const unsigned char *next_record(struct rd_tls *tls, size_t *size)
{
	for (;;) {
		size_t here = tls->in_size - tls->in_at;
		bool known = here >= RD_RECORD_HEADER;

		*size = known ? rd_record_size(tls->in + tls->in_at) : 0;
		tls->broken |= known && *size == 0;
		if (tls->broken)
			return NULL;
		if (known && here >= *size)
			return tls->in + tls->in_at;
		if (!read_socket(tls))
			return NULL;
	}
}

/* The peer's next key (RFC 8446, 4.6.3). It never asks for one of ours. */
static bool take_key_update(struct rd_tls *tls, const unsigned char *content, size_t size)
{
	return size == sizeof(key_update) && memcmp(content, key_update, size) == 0 &&
	       rd_records_update(tls->opened);
}

/* Opens a record to `bytes`, where there is room for it, else in place. Returns the bytes that it
   has put there. */
static size_t take_record(
	struct rd_tls *tls, const unsigned char *record, size_t size, char *bytes, size_t room)
{
	bool fits = rd_record_content_size(record) <= room;
	size_t text_at = tls->in_at + RD_RECORD_HEADER, taken;
	unsigned char *content = fits ? (unsigned char *)bytes : tls->in + text_at;

	tls->in_at += size;
	switch (rd_records_open(tls->opened, record, content, &taken)) {
	case RD_RECORD_DATA:
		if (fits)
			return taken;
		tls->text_at = text_at;
		tls->text_end = text_at + taken;
		return 0;
	case RD_RECORD_HANDSHAKE:
		tls->broken = !take_key_update(tls, content, taken);
		return 0;
	default:
		tls->broken = true;
		return 0;
	}
}

/* Opens records until there are bytes, of which it returns the count, or text: none of both where
   the socket has no record, or has failed. */
static size_t take_records(struct rd_tls *tls, char *bytes, size_t room)
{
	size_t taken = 0, size;
	const unsigned char *record;

	while (taken == 0 && tls->text_at == tls->text_end && (record = next_record(tls, &size)))
		taken = take_record(tls, record, size, bytes, room);
	return taken;
}

/* Some bytes, or 0: the socket has none, or has failed. */
static size_t take_bytes(struct rd_tls *tls, char *bytes, size_t room)
{
	size_t taken = take_records(tls, bytes, room), text = tls->text_end - tls->text_at;

	if (taken > 0 || text == 0)
		return taken;
	taken = text < room ? text : room;
	memcpy(bytes, tls->in + tls->text_at, taken);
	tls->text_at += taken;
	return taken;
}

ssize_t rd_tls_recv(struct rd_tls *tls, const struct iovec *iov, size_t count)
{
	size_t total = 0, taken;

	for (size_t i = 0; i < count; i++)
		for (size_t at = 0; at < iov[i].iov_len; at += taken) {
			taken = take_bytes(tls, (char *)iov[i].iov_base + at, iov[i].iov_len - at);
			if (taken == 0)
				return total > 0 ? (ssize_t)total : failure(tls);
			total += taken;
		}
	return (ssize_t)total;
}

ssize_t rd_tls_peek(struct rd_tls *tls)
{
	take_records(tls, NULL, 0);
	return tls->text_at < tls->text_end ? 1 : failure(tls);
}

/* ---- Bytes that go ------------------------------------------------------------------------- */

/* There is room for a record. */
static bool seal(struct rd_tls *tls, enum rd_record_type type, const void *content, size_t size)
{
	tls->broken |= !rd_records_seal(tls->sealed, type, content, size, tls->out + tls->out_size);
	if (!tls->broken)
		tls->out_size += size + RD_RECORD_OVERHEAD;
	return !tls->broken;
}

static bool change_key(struct rd_tls *tls)
{
	tls->records = 0;
	if (!seal(tls, RD_RECORD_HANDSHAKE, key_update, sizeof(key_update)))
		return false;
	tls->broken |= !rd_records_update(tls->sealed);
	return !tls->broken;
}

/* Encrypts as much as there is room for: the bytes taken. */
static size_t encrypt(struct rd_tls *tls, const char *bytes, size_t size)
{
	size_t taken = 0, part;

	while (taken < size && (has_room(tls) || flush(tls))) {
		if (tls->records == KEY_RECORDS) {
			if (!change_key(tls))
				break;
			continue;
		}
		part = size - taken < RD_RECORD_CONTENT_MAX ? size - taken : RD_RECORD_CONTENT_MAX;
		if (!seal(tls, RD_RECORD_DATA, bytes + taken, part))
			break;
		tls->records++;
		taken += part;
	}
	return taken;
}

ssize_t rd_tls_send(struct rd_tls *tls, const struct iovec *iov, size_t count)
{
	size_t total = 0, size, more;

	if (flush(tls)) {
		/* The first byte was encrypted by the last call. */
		total = tls->counts_last;
		tls->counts_last = false;
		for (size_t i = 0, skip = total; i < count; i++, skip = 0) {
			size = iov[i].iov_len - skip;
			more = encrypt(tls, (const char *)iov[i].iov_base + skip, size);
			total += more;
			if (more < size)
				break;
		}
		flush(tls);
	}
	if (tls->out_size > 0 && total > 0) {
		tls->counts_last = true;
		total--;
	}
	if (total > 0)
		return (ssize_t)total;
	errno = why(tls);
	return -1;
}
