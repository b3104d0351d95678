#include "transports/tcp/strangers.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "transports/event_source.h"
#include "transports/tcp/interface.h"

/* The bound of due strangers, beyond the connections that this comm may make. */
#define STRANGERS_MAX 64

struct rd_tcp_stranger {
	struct rd_event_source source;
	struct rd_tcp_strangers *strangers;
	int fd;
	struct rd_tcp_stranger *next;
	size_t size; /* bytes of hello that have arrived; all: it is valid */
	struct rd_tcp_hello hello;
};

void rd_tcp_reject(int fd, const char *why)
{
	struct sockaddr_storage address = { 0 };
	socklen_t size = sizeof(address);
	char where[RD_ADDRESS_TEXT];

	if (rd_log_on(RD_INFO, RD_NET) && getpeername(fd, (struct sockaddr *)&address, &size) == 0)
		rd_log(RD_INFO, RD_NET, "NET/Socket : Dropped a connection from %s: %s",
			rd_address_text(&address, where), why);
	close(fd);
}

static void stranger_drop(struct rd_tcp_stranger *stranger, const char *why)
{
	rd_tcp_reject(stranger->fd, why);
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
	rd_event_watch(*strangers->epoll_fd, EPOLL_CTL_DEL, stranger->fd, 0, NULL);
}

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
	char byte;

	if (!early || recv(early->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
		return;
	*at = early->next;
	stranger_drop(early, "it left before its link was opened");
}

/* Its hello is valid. True: a connection has taken it. */
static bool stranger_admit(struct rd_tcp_stranger *stranger)
{
	struct rd_tcp_strangers *strangers = stranger->strangers;
	const struct rd_tcp_hello *hello = &stranger->hello;

	switch (strangers->admit(strangers->owner, stranger->fd, hello)) {
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

static bool stranger_handle(void *owner)
{
	struct rd_tcp_stranger *stranger = owner;
	const struct rd_tcp_strangers *strangers = stranger->strangers;
	ssize_t size = recv(stranger->fd, (char *)&stranger->hello + stranger->size,
		sizeof(stranger->hello) - stranger->size, MSG_DONTWAIT);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (size > 0) {
		stranger->size += (size_t)size;
		if (stranger->size < sizeof(stranger->hello))
			return false;
	}
	stranger_unlink(stranger);
	if (size <= 0)
		stranger_drop(stranger, "it left before its hello");
	else if (!rd_tcp_hello_valid(&stranger->hello, strangers->key, strangers->local))
		stranger_drop(stranger, "not a rank of this job");
	else
		return stranger_admit(stranger);
	return false;
}

static int due_max(const struct rd_tcp_strangers *strangers)
{
	return STRANGERS_MAX + strangers->local->size * strangers->local->settings->channels;
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
	if (strangers->due_count >= due_max(strangers)) {
		struct rd_tcp_stranger *oldest = strangers->due;

		stranger_unlink(oldest);
		stranger_drop(oldest, "too many that have not said who they are");
	}
	stranger->source = (struct rd_event_source){ stranger_handle, stranger };
	stranger->strangers = strangers;
	stranger->fd = fd;
	while (*last)
		last = &(*last)->next;
	*last = stranger;
	strangers->due_count++;
	return stranger_handle(stranger);
}

int rd_tcp_strangers_take(
	struct rd_tcp_strangers *strangers, int from, int channel, struct rd_tcp_hello *hello)
{
	struct rd_tcp_stranger **at = find_early(strangers, from, channel), *early = *at;
	int fd;

	if (!early)
		return -1;
	*at = early->next;
	*hello = early->hello;
	fd = early->fd;
	free(early);
	return fd;
}

static void close_all(struct rd_tcp_strangers *strangers, struct rd_tcp_stranger **list)
{
	while (*list) {
		struct rd_tcp_stranger *stranger = *list;

		*list = stranger->next;
		rd_event_close(*strangers->epoll_fd, &stranger->fd);
		free(stranger);
	}
}

void rd_tcp_strangers_finish(struct rd_tcp_strangers *strangers)
{
	close_all(strangers, &strangers->due);
	close_all(strangers, &strangers->early);
	strangers->due_count = 0;
}
