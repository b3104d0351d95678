#include "transports/tcp/strangers.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "transports/event_source.h"
#include "transports/tcp/interface.h"

/* The bound of due strangers, beyond the connections that this comm may make. */
#define STRANGERS_MAX 64
/* The time for a whole hello. */
#define HELLO_MS 10000
/* The first byte of TLS, where a hello has its magic number's. */
#define TLS_HANDSHAKE 0x16

struct rd_tcp_stranger {
	struct rd_event_source source;
	struct rd_tcp_strangers *strangers;
	struct rd_wire wire;
	bool known; /* its first byte has come: it speaks TLS, or does not */
	int64_t until_ms;
	struct rd_tcp_stranger *next;
	size_t size; /* bytes of hello that have arrived; all: it is valid */
	struct rd_tcp_hello hello;
};

/* ---- Closing ------------------------------------------------------------------------------- */

void rd_tcp_wire_close(int epoll_fd, struct rd_wire *wire)
{
	int fd = rd_wire_release(wire);

	rd_event_close(epoll_fd, &fd);
}

/* Strangers that come again and again fill no log. */
static bool is_logged(struct rd_tcp_strangers *strangers)
{
	strangers->dropped++;
	return (strangers->dropped & (strangers->dropped - 1)) == 0;
}

void rd_tcp_reject(struct rd_tcp_strangers *strangers, struct rd_wire *wire, const char *why)
{
	struct sockaddr_storage address = { 0 };
	socklen_t size = sizeof(address);
	char where[RD_ADDRESS_TEXT];

	if (is_logged(strangers) && rd_log_on(RD_INFO, RD_NET) &&
		getpeername(wire->fd, (struct sockaddr *)&address, &size) == 0)
		rd_log(RD_INFO, RD_NET, "NET/Socket : Dropped a connection from %s: %s (%u so far)",
			rd_address_text(&address, where), why, strangers->dropped);
	rd_wire_close(wire);
}

static void stranger_drop(struct rd_tcp_stranger *stranger, const char *why)
{
	rd_tcp_reject(stranger->strangers, &stranger->wire, why);
	free(stranger);
}

static void stranger_unlink(struct rd_tcp_stranger *stranger)
{
	struct rd_tcp_strangers *strangers = stranger->strangers;
	struct rd_tcp_stranger **at = &strangers->due;

	while (*at != stranger)
		at = &(*at)->next;
	*at = stranger->next;
	strangers->due_count--;
	/* Explicit: a forked child may hold the socket, and so keep it in the epoll. */
	rd_event_watch(*strangers->epoll_fd, EPOLL_CTL_DEL, stranger->wire.fd, 0, NULL);
}

/* ---- Early ones ---------------------------------------------------------------------------- */

/* Returns the place of a stranger in the list of early ones; it holds NULL if there is none. */
static struct rd_tcp_stranger **find_early(
	struct rd_tcp_strangers *strangers, int from, int channel)
{
	struct rd_tcp_stranger **at = &strangers->early;

	while (*at && ((*at)->hello.from != from || (*at)->hello.channel != channel))
		at = &(*at)->next;
	return at;
}

/* The peer may have tried another address since: the socket that came first has then ended. */
static void drop_ended(struct rd_tcp_stranger **at)
{
	struct rd_tcp_stranger *early = *at;

	if (!early || rd_wire_peek(&early->wire) != 0)
		return;
	*at = early->next;
	stranger_drop(early, "it left before its link was opened");
}

bool rd_tcp_strangers_take(struct rd_tcp_strangers *strangers, int from, int channel,
	struct rd_wire *wire, struct rd_tcp_hello *hello)
{
	struct rd_tcp_stranger **at = find_early(strangers, from, channel), *early = *at;

	if (!early)
		return false;
	*at = early->next;
	*hello = early->hello;
	*wire = early->wire;
	free(early);
	return true;
}

/* ---- The hello ----------------------------------------------------------------------------- */

/* Its hello is valid. True: a connection has taken it. */
static bool stranger_admit(struct rd_tcp_stranger *stranger)
{
	struct rd_tcp_strangers *strangers = stranger->strangers;
	const struct rd_tcp_hello *hello = &stranger->hello;

	switch (strangers->admit(strangers->owner, &stranger->wire, hello)) {
	case RD_TCP_TAKEN:
		free(stranger);
		return true;
	case RD_TCP_REFUSED:
		stranger_drop(stranger, "not awaited");
		break;
	case RD_TCP_EARLY:
		drop_ended(find_early(strangers, hello->from, hello->channel));
		if (*find_early(strangers, hello->from, hello->channel)) {
			stranger_drop(stranger, "it is here already");
			break;
		}
		stranger->next = strangers->early;
		strangers->early = stranger;
	}
	return false;
}

/* Looks whether it begins with TLS. 1: that is known; 0: not yet; -1: the connection has ended. */
static int look_at_first(struct rd_tcp_stranger *stranger)
{
	const struct rd_settings *settings = stranger->strangers->local->settings;
	unsigned char first;
	ssize_t size;

	if (stranger->known)
		return 1;
	size = recv(stranger->wire.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
	if (size <= 0)
		return size < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
	stranger->known = true;
	if (settings->has_psk && first == TLS_HANDSHAKE)
		return rd_wire_secure(&stranger->wire, true, settings->psk) ? -1 : 1;
	return 1;
}

/* 1: it has proved what it must before its hello; 0: not yet; -1: it never will. */
static int stranger_prove(struct rd_tcp_stranger *stranger)
{
	int result = look_at_first(stranger);

	if (result > 0)
		result = rd_wire_prove(&stranger->wire);
	if (result > 0 && !stranger->strangers->local->settings->encrypt)
		rd_wire_strip(&stranger->wire);
	return result;
}

/* 1: its hello is here; 0: not yet; -1: the connection has ended. */
static int hello_read(struct rd_tcp_stranger *stranger)
{
	struct iovec rest = { (char *)&stranger->hello + stranger->size,
		sizeof(stranger->hello) - stranger->size };
	ssize_t size = rd_wire_recv(&stranger->wire, &rest, 1);

	if (size <= 0)
		return size < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
	stranger->size += (size_t)size;
	return stranger->size == sizeof(stranger->hello);
}

static bool stranger_handle(void *owner)
{
	struct rd_tcp_stranger *stranger = owner;
	const struct rd_tcp_strangers *strangers = stranger->strangers;
	int result = stranger_prove(stranger);
	const char *why = result < 0 ? "it did not prove itself" : "it left before its hello";

	if (result > 0)
		result = hello_read(stranger);
	if (result == 0)
		return false;
	stranger_unlink(stranger);
	if (result < 0)
		stranger_drop(stranger, why);
	else if (!rd_tcp_hello_valid(&stranger->hello, strangers->key, strangers->local))
		stranger_drop(stranger, "not a rank of this job");
	else
		return stranger_admit(stranger);
	return false;
}

/* ---- New ones ------------------------------------------------------------------------------ */

static int due_max(const struct rd_tcp_strangers *strangers)
{
	return STRANGERS_MAX + strangers->local->size * strangers->local->settings->channels;
}

/* The oldest that has shown no secret; else the oldest. */
static struct rd_tcp_stranger *first_to_go(const struct rd_tcp_strangers *strangers)
{
	struct rd_tcp_stranger *at = strangers->due;

	while (at && (at->wire.keyed || (at->wire.tls && rd_wire_is_promising(&at->wire))))
		at = at->next;
	return at ? at : strangers->due;
}

bool rd_tcp_strangers_make_room(struct rd_tcp_strangers *strangers)
{
	struct rd_tcp_stranger *first = first_to_go(strangers);

	if (!first)
		return false;
	stranger_unlink(first);
	stranger_drop(first, "others need its place");
	return true;
}

bool rd_tcp_strangers_add(struct rd_tcp_strangers *strangers, int fd)
{
	struct rd_tcp_stranger *stranger = calloc(1, sizeof(*stranger)), **last = &strangers->due;

	if (!stranger || rd_event_watch(*strangers->epoll_fd, EPOLL_CTL_ADD, fd, EPOLLIN,
				 &stranger->source)) {
		free(stranger);
		close(fd);
		return false;
	}
	if (strangers->due_count >= due_max(strangers))
		rd_tcp_strangers_make_room(strangers);
	stranger->source = (struct rd_event_source){ stranger_handle, stranger };
	stranger->strangers = strangers;
	stranger->wire = (struct rd_wire)RD_WIRE(fd);
	stranger->until_ms = rd_clock_ms() + HELLO_MS;
	rd_tcp_timer_request(strangers->timer, stranger->until_ms);
	while (*last)
		last = &(*last)->next;
	*last = stranger;
	strangers->due_count++;
	return stranger_handle(stranger);
}

/* All have the same time, so the oldest one's ends first. */
void rd_tcp_strangers_check(struct rd_tcp_strangers *strangers)
{
	while (strangers->due && rd_clock_ms() >= strangers->due->until_ms) {
		struct rd_tcp_stranger *late = strangers->due;

		stranger_unlink(late);
		stranger_drop(late, "it did not say who it is");
	}
	if (strangers->due)
		rd_tcp_timer_request(strangers->timer, strangers->due->until_ms);
}

static void close_all(struct rd_tcp_strangers *strangers, struct rd_tcp_stranger **list)
{
	while (*list) {
		struct rd_tcp_stranger *stranger = *list;

		*list = stranger->next;
		rd_tcp_wire_close(*strangers->epoll_fd, &stranger->wire);
		free(stranger);
	}
}

void rd_tcp_strangers_finish(struct rd_tcp_strangers *strangers)
{
	close_all(strangers, &strangers->due);
	close_all(strangers, &strangers->early);
	strangers->due_count = 0;
}
