#include "secure/tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fork_lock.h"
#include "base/library.h"

/* A peer's part of the handshake takes some 500 bytes. */
#define HANDSHAKE_MAX 4096
/* A record on the wire, with header, type, tag and padding, is no longer; nor are a message that
   changes the key and a record of ours. */
#define RECORD_MAX (5 + RD_TLS_RECORD_SIZE + 256)
/* Encrypted bytes go to the socket, and come from it, so many at a time. A small batch is on its
   way while this rank encrypts the next. */
#define OUT_BATCH (2 * RECORD_MAX)
#define IN_BATCH (4 * RECORD_MAX)
/* AES-GCM is safe for 2^24.5 records of one key (RFC 8446, 5.5). */
#define KEY_RECORDS (1 << 20)

static const char identity[] = "rondo";

struct rd_tls {
	int fd;
	SSL *ssl;
	unsigned char psk[RD_PSK_SIZE]; /* until the proof */
	bool proved;
	bool blocked; /* the socket had too few bytes for the present operation */
	bool ended; /* the socket has reached its end */
	int error; /* errno of the socket; 0: none */
	bool broken; /* the peer breaks the protocol, or has another key */
	size_t handshake_size; /* bytes read before the proof */
	uint32_t records; /* sent with the present key */
	bool counts_last; /* the last byte taken is to be counted */
	bool keeps_buffers;
	/* Encrypted, for the socket: [out_at, out_size) of out[OUT_BATCH]; or NULL. */
	unsigned char *out;
	size_t out_at, out_size;
};

/* Made once, and never freed. */
static struct {
	struct rd_fork_lock lock;
	SSL_CTX *context;
	BIO_METHOD *socket;
} shared = { .lock = RD_FORK_LOCK(RD_FORK_LEAF) };

/* ---- OpenSSL's functions -------------------------------------------------------------------- */

/*
 * Loaded when a comm first has a secret, or by rondo_spawn(): programs that need none do not load
 * it. The version is that of the headers: 3, or 1.1.1, which has the same functions.
 */
#define FUNCTIONS(X) \
	X(BIO_clear_flags) \
	X(BIO_get_data) \
	X(BIO_meth_new) \
	X(BIO_meth_set_ctrl) \
	X(BIO_meth_set_read) \
	X(BIO_meth_set_write) \
	X(BIO_new) \
	X(BIO_set_data) \
	X(BIO_set_flags) \
	X(BIO_set_init) \
	X(ERR_clear_error) \
	X(EVP_sha256) \
	X(HMAC) \
	X(OPENSSL_cleanse) \
	X(OPENSSL_init_crypto) \
	X(SSL_CIPHER_find) \
	X(SSL_CTX_ctrl) \
	X(SSL_CTX_free) \
	X(SSL_CTX_new) \
	X(SSL_CTX_set_ciphersuites) \
	X(SSL_CTX_set_num_tickets) \
	X(SSL_CTX_set_psk_find_session_callback) \
	X(SSL_CTX_set_psk_use_session_callback) \
	X(SSL_SESSION_free) \
	X(SSL_SESSION_new) \
	X(SSL_SESSION_set1_master_key) \
	X(SSL_SESSION_set_cipher) \
	X(SSL_SESSION_set_protocol_version) \
	X(SSL_ctrl) \
	X(SSL_do_handshake) \
	X(SSL_free) \
	X(SSL_get_ex_data) \
	X(SSL_key_update) \
	X(SSL_new) \
	X(SSL_peek_ex) \
	X(SSL_read_ex) \
	X(SSL_session_reused) \
	X(SSL_set_accept_state) \
	X(SSL_set_bio) \
	X(SSL_set_connect_state) \
	X(SSL_set_default_read_buffer_len) \
	X(SSL_set_ex_data) \
	X(SSL_set_read_ahead) \
	X(SSL_write_ex) \
	X(TLS_method)

static struct {
#define FIELD(name) __typeof__(&name) name;
	FUNCTIONS(FIELD)
#undef FIELD
} openssl;

#define NAME(function) #function,
static const char *const names[] = { FUNCTIONS(NAME) };
#undef NAME

/*
 * Where nobody has used OpenSSL before, it would free its tables in an exit handler. Handlers that
 * run later may use a comm, threads of ours still do, and a forked child that calls exit() could
 * wait for a lock of a thread that it does not have. A program that used it first has chosen.
 */
static void omit_cleanup(void)
{
	openssl.OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

/* libcrypto, on which it depends, has some of the functions. */
static struct rd_library library = {
	.file = OPENSSL_VERSION_NUMBER >= 0x30000000L ? "libssl.so.3" : "libssl.so.1.1",
	.reason = "",
	.remedy = "",
	.names = names,
	.functions = &openssl,
	.count = sizeof(names) / sizeof(names[0]),
	.start = omit_cleanup,
	.lock = RD_FORK_LOCK(RD_FORK_LEAF),
};

/* ---- The key ------------------------------------------------------------------------------- */

static SSL_SESSION *key_session(SSL *ssl)
{
	static const unsigned char aes_128_gcm_sha256[] = { 0x13, 0x01 };
	const struct rd_tls *tls = openssl.SSL_get_ex_data(ssl, 0);
	const SSL_CIPHER *cipher = openssl.SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
	SSL_SESSION *session = openssl.SSL_SESSION_new();

	if (session && cipher &&
		openssl.SSL_SESSION_set1_master_key(session, tls->psk, sizeof(tls->psk)) &&
		openssl.SSL_SESSION_set_cipher(session, cipher) &&
		openssl.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		return session;
	openssl.SSL_SESSION_free(session);
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

/* ---- The socket ---------------------------------------------------------------------------- */

static int socket_read(BIO *bio, char *bytes, int size)
{
	struct rd_tls *tls = openssl.BIO_get_data(bio);
	size_t most = (size_t)size;
	ssize_t got;

	openssl.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
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
		openssl.BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
	} else {
		tls->error = errno;
	}
	return -1;
}

static bool has_room(const struct rd_tls *tls)
{
	return OUT_BATCH - tls->out_size >= RECORD_MAX;
}

/* To our buffer alone. A peer's bytes make TLS answer: more than it has room for is an attack. */
static int socket_write(BIO *bio, const char *bytes, int size)
{
	struct rd_tls *tls = openssl.BIO_get_data(bio);

	openssl.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
	if (OUT_BATCH - tls->out_size < (size_t)size) {
		tls->broken = true;
		return -1;
	}
	if (!tls->out)
		tls->out = malloc(OUT_BATCH);
	if (!tls->out) {
		tls->error = ENOMEM;
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
	if (!tls->keeps_buffers) {
		unsigned char *out = tls->out;

		/* In this order: a child that is forked here must not free it again. */
		tls->out = NULL;
		atomic_signal_fence(memory_order_seq_cst);
		free(out);
	}
	return !tls->error;
}

/* ---- Shared by all sessions ---------------------------------------------------------------- */

static BIO_METHOD *make_socket(void)
{
	BIO_METHOD *method = openssl.BIO_meth_new(BIO_TYPE_SOURCE_SINK | 100, "rondo");

	if (method && openssl.BIO_meth_set_read(method, socket_read) &&
		openssl.BIO_meth_set_write(method, socket_write) &&
		openssl.BIO_meth_set_ctrl(method, socket_control))
		return method;
	return NULL;
}

static SSL_CTX *make_context(void)
{
	SSL_CTX *context = openssl.SSL_CTX_new(openssl.TLS_method());

	if (!context)
		return NULL;
	if (!openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) ||
		!openssl.SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") ||
		!openssl.SSL_CTX_ctrl(
			context, SSL_CTRL_SET_GROUPS_LIST, 0, (void *)"X25519:P-256") ||
		!openssl.SSL_CTX_set_num_tickets(context, 0)) {
		openssl.SSL_CTX_free(context);
		return NULL;
	}
	openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
	openssl.SSL_CTX_ctrl(context, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, NULL);
	openssl.SSL_CTX_set_psk_use_session_callback(context, offer_key);
	openssl.SSL_CTX_set_psk_find_session_callback(context, find_key);
	return context;
}

int rd_tls_load(void)
{
	int err = rd_library_load(&library);
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
	openssl.HMAC(openssl.EVP_sha256(), key, (int)key_size, text, text_size, derived, NULL);
}

/* ---- Sessions ------------------------------------------------------------------------------ */

static bool attach_socket(struct rd_tls *tls)
{
	BIO *bio = openssl.BIO_new(shared.socket);

	if (!bio)
		return false;
	openssl.BIO_set_data(bio, tls);
	openssl.BIO_set_init(bio, 1);
	openssl.SSL_set_bio(tls->ssl, bio, bio); /* which frees it */
	return true;
}

struct rd_tls *rd_tls_create(int fd, bool accepts, const unsigned char psk[RD_PSK_SIZE])
{
	struct rd_tls *tls = calloc(1, sizeof(*tls));

	if (!tls)
		return NULL;
	tls->fd = fd;
	memcpy(tls->psk, psk, sizeof(tls->psk));
	tls->ssl = openssl.SSL_new(shared.context);
	if (!tls->ssl || !openssl.SSL_set_ex_data(tls->ssl, 0, tls) || !attach_socket(tls)) {
		rd_tls_destroy(tls);
		return NULL;
	}
	if (accepts)
		openssl.SSL_set_accept_state(tls->ssl);
	else
		openssl.SSL_set_connect_state(tls->ssl);
	return tls;
}

void rd_tls_destroy(struct rd_tls *tls)
{
	if (!tls)
		return;
	openssl.SSL_free(tls->ssl);
	openssl.OPENSSL_cleanse(tls->psk, sizeof(tls->psk));
	free(tls->out);
	free(tls);
}

void rd_tls_keep_buffers(struct rd_tls *tls)
{
	tls->keeps_buffers = true;
	openssl.SSL_set_default_read_buffer_len(tls->ssl, IN_BATCH);
	openssl.SSL_ctrl(tls->ssl, SSL_CTRL_CLEAR_MODE, SSL_MODE_RELEASE_BUFFERS, NULL);
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

/* An operation of OpenSSL has failed. */
static void note_failure(struct rd_tls *tls)
{
	openssl.ERR_clear_error();
	tls->broken |= !tls->error && !tls->blocked && !tls->ended;
}

/* OpenSSL reads no byte beyond the handshake: after the proof, plain bytes may follow. From then on
   it reads as much as there is. */
static int shake_hands(struct rd_tls *tls)
{
	tls->blocked = false;
	if (openssl.SSL_do_handshake(tls->ssl) == 1) {
		tls->proved = openssl.SSL_session_reused(tls->ssl);
		openssl.OPENSSL_cleanse(tls->psk, sizeof(tls->psk));
		openssl.SSL_set_read_ahead(tls->ssl, 1);
		return 0;
	}
	note_failure(tls);
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
	return tls->proved || openssl.SSL_session_reused(tls->ssl);
}

/* ---- Bytes that come ----------------------------------------------------------------------- */

/* Some bytes, or 0: the socket has none, or has failed. */
static size_t take_bytes(struct rd_tls *tls, char *bytes, size_t room)
{
	size_t taken;

	tls->blocked = false;
	if (tls->broken || tls->error)
		return 0;
	if (openssl.SSL_read_ex(tls->ssl, bytes, room, &taken))
		return taken;
	note_failure(tls);
	return 0;
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
	size_t taken;
	char byte;

	tls->blocked = false;
	if (!tls->broken && !tls->error) {
		if (openssl.SSL_peek_ex(tls->ssl, &byte, 1, &taken))
			return 1;
		note_failure(tls);
	}
	return failure(tls);
}

/* ---- Bytes that go ------------------------------------------------------------------------- */

/* Encrypts a record, for which there is room. False: OpenSSL has failed. */
static bool write_record(struct rd_tls *tls, const char *bytes, size_t size)
{
	size_t written;

	tls->blocked = false;
	if (tls->records == KEY_RECORDS) {
		tls->records = 0;
		if (!openssl.SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED))
			note_failure(tls);
	}
	tls->records++;
	if (!openssl.SSL_write_ex(tls->ssl, bytes, size, &written) || written != size)
		note_failure(tls);
	return !tls->broken;
}

/* Encrypts as much as there is room for: the bytes taken. */
static size_t encrypt(struct rd_tls *tls, const char *bytes, size_t size)
{
	size_t taken = 0, part;

	while (taken < size && !tls->broken && (has_room(tls) || flush(tls))) {
		part = size - taken < RD_TLS_RECORD_SIZE ? size - taken : RD_TLS_RECORD_SIZE;
		if (write_record(tls, bytes + taken, part))
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
