#include "train/metrics/places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_name.h"
#include "train/base/fail.h"

#define PLACE_TEXT 384

/* Points into the text of a rank, three strings. */
struct place {
	const char *host, *local_rank, *device;
};

static size_t write_place(char text[PLACE_TEXT], int local_rank, const char *device)
{
	char host[RD_HOST_NAME_SIZE];
	rd_host_name(host);
	/* NUL separates the three, and follows the last. */
	int size = snprintf(text, PLACE_TEXT, "%s%c%d%c%.192s", host, 0, local_rank, 0, device);
	return size + 1;
}

static void read_places(struct place *places, int size, const char *text)
{
	for (int rank = 0; rank < size; rank++) {
		const char **parts[] = { &places[rank].host, &places[rank].local_rank,
			&places[rank].device };
		for (int i = 0; i < 3; i++) {
			*parts[i] = text;
			text += strlen(text) + 1;
		}
	}
}

static void print_rank(struct report *report, const struct place *places, int rank)
{
	report_line(report, "[rank %d] host %s local rank %s device %s", rank, places[rank].host,
		places[rank].local_rank, places[rank].device);
}

/* The rank behind the last that follows on `first` on the same host. */
static int host_end(const struct place *places, int size, int first)
{
	int end = first + 1;
	while (end < size && !strcmp(places[end].host, places[first].host))
		end++;
	return end;
}

/* One line for ranks first to last, of one host. */
static void print_host(struct report *report, const struct place *places, int first, int last)
{
	const struct place *from = &places[first], *to = &places[last];
	if (first == last)
		print_rank(report, places, first);
	else if (!strcmp(from->device, to->device))
		report_line(report, "[ranks %d-%d] host %s local ranks %s-%s device %s", first,
			last, from->host, from->local_rank, to->local_rank, from->device);
	else
		report_line(report, "[ranks %d-%d] host %s local ranks %s-%s devices %s to %s",
			first, last, from->host, from->local_rank, to->local_rank, from->device,
			to->device);
}

static void print_hosts(struct report *report, const struct place *places, int size)
{
	int rank = 0;
	for (int lines = 0; rank < size && lines < PLACES_LINES; lines++) {
		int end = host_end(places, size, rank);
		print_host(report, places, rank, end - 1);
		rank = end;
	}
	if (rank < size)
		report_line(report, "[ranks %d-%d] on further hosts", rank, size - 1);
}

static int print_all(struct report *report, int size, const char *text)
{
	struct place *places = calloc(size, sizeof(*places)); /* [size] */
	if (!places)
		return fail("out of memory for the places of %d ranks", size);
	read_places(places, size, text);
	for (int rank = 0; rank < size && size <= PLACES_LINES; rank++)
		print_rank(report, places, rank);
	if (size > PLACES_LINES)
		print_hosts(report, places, size);
	free(places);
	return 0;
}

int places_report(
	struct report *report, const struct train_world *world, int local_rank, const char *device)
{
	char mine[PLACE_TEXT];
	size_t size = write_place(mine, local_rank, device);
	if (!world->comm)
		return print_all(report, 1, mine);
	size_t *sizes = calloc(world->size, sizeof(*sizes)); /* [size] */
	void *texts = NULL;
	if (!sizes)
		return fail("out of memory for the places of %d ranks", world->size);
	int err = rondo_gather_bytes(world->comm, mine, size, &texts, sizes, 0);
	if (err)
		err = fail_comm(err, "gather the places of the ranks");
	else if (!world->rank)
		err = print_all(report, world->size, texts);
	free(sizes);
	free(texts);
	return err;
}
