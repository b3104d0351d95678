/*
 * OpenSSL's functions, loaded when a comm first has a secret, or by rondo_spawn(): programs that
 * need none do not load it. The version is that of the headers: 3, or 1.1.1, which has the same
 * functions.
 */
#ifndef RD_OPENSSL_H
#define RD_OPENSSL_H

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#define RD_OPENSSL_FUNCTIONS(X) \
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

struct rd_openssl {
#define RD_OPENSSL_FIELD(name) __typeof__(&name) name;
	RD_OPENSSL_FUNCTIONS(RD_OPENSSL_FIELD)
#undef RD_OPENSSL_FIELD
};

/* Valid after rd_openssl_load() has returned 0. */
extern struct rd_openssl rd_openssl;

/* Any thread. RONDO_UNSUPPORTED, with the reason, where there is none. */
int rd_openssl_load(void);

#endif
