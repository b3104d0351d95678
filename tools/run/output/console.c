#include "run/output/console.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A reader that takes nothing for so long is not waited for. */
#define FLUSH_MS 100

/* If stdout and stderr are one file, a rank's output to both must stay in order. */
static bool same_place(int a, int b)
{
	struct stat at, bt;

	return fstat(a, &at) == 0 && fstat(b, &bt) == 0 && at.st_dev == bt.st_dev &&
	       at.st_ino == bt.st_ino;
}

void console_init(struct console *console)
{
	sink_init(&console->out, STDOUT_FILENO);
	sink_init(&console->err, STDERR_FILENO);
	console->messages =
		same_place(STDOUT_FILENO, STDERR_FILENO) ? &console->out : &console->err;
}

void console_finish(struct console *console)
{
	sink_finish(&console->out);
	sink_finish(&console->err);
}

void console_print(struct console *console, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	sink_print(console->messages, text);
}

void console_flush(struct console *console)
{
	struct polls polls = { 0 };
	bool ready = true;

	while (ready && console_waiting(console)) {
		polls.count = 0;
		console_add_polls(console, &polls);
		ready = poll(polls.fds, (nfds_t)polls.count, FLUSH_MS) > 0;
		if (ready)
			console_take_polls(console, &polls);
	}
	polls_finish(&polls);
}

bool console_has_lost_lines(const struct console *console)
{
	const struct sink *sinks[] = { &console->out, &console->err };
	bool lost = false;

	for (int i = 0; i < 2; i++) {
		if (!sinks[i]->error)
			continue;
		fprintf(stderr, "rondo-run: cannot write to %s: %s: lines of the ranks are lost\n",
			i == 0 ? "stdout" : "stderr", strerror(sinks[i]->error));
		lost = true;
	}
	return lost;
}

bool console_waiting(const struct console *console)
{
	return sink_waiting(&console->out) > 0 || sink_waiting(&console->err) > 0;
}

static int add(const struct sink *sink, struct polls *polls)
{
	return polls_add(polls, sink_waiting(sink) ? sink->fd : -1, POLLOUT);
}

void console_add_polls(struct console *console, struct polls *polls)
{
	console->polls[0] = add(&console->out, polls);
	console->polls[1] = add(&console->err, polls);
}

void console_take_polls(struct console *console, const struct polls *polls)
{
	if (polls->fds[console->polls[0]].revents)
		sink_flush(&console->out);
	if (polls->fds[console->polls[1]].revents)
		sink_flush(&console->err);
}
