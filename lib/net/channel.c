#include "net/trunk.h"

#include <stdlib.h>
#include <string.h>

struct rd_channel_frame {
	struct rd_channel_frame *next;
	size_t size;
	unsigned char bytes[];
};

void rd_channel_stir(struct rd_channel *channel)
{
	channel->stirred = true;
	if (channel->due)
		atomic_store(channel->due, true);
}

struct rd_channel *rd_channel_make(
	struct rd_channel **list, struct rd_trunk *trunk, uint32_t number)
{
	struct rd_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->trunk = trunk;
	channel->number = number;
	channel->end = &channel->first;
	channel->next = *list;
	channel->at = list;
	if (channel->next)
		channel->next->at = &channel->next;
	*list = channel;
	return channel;
}

void rd_channel_free(struct rd_channel *channel)
{
	*channel->at = channel->next;
	if (channel->next)
		channel->next->at = channel->at;
	while (channel->first) {
		struct rd_channel_frame *frame = channel->first;

		channel->first = frame->next;
		free(frame);
	}
	free(channel->taken);
	free(channel);
}

void rd_channel_end(struct rd_channel *channel, int error)
{
	if (channel->ended)
		return;
	channel->ended = true;
	channel->error = error;
	rd_channel_stir(channel);
}

bool rd_channel_add(struct rd_channel *channel, const unsigned char *bytes, size_t size)
{
	struct rd_channel_frame *frame = malloc(sizeof(*frame) + size);

	if (!frame)
		return false;
	frame->next = NULL;
	frame->size = size;
	memcpy(frame->bytes, bytes, size);
	*channel->end = frame;
	channel->end = &frame->next;
	channel->count++;
	rd_channel_stir(channel);
	return true;
}

int rd_channel_read(struct rd_channel *channel, int *error)
{
	channel->stirred = false;
	if (channel->first)
		return 1;
	*error = channel->error;
	return channel->ended ? -1 : 0;
}

long rd_channel_next(struct rd_channel *channel, const unsigned char **frame)
{
	struct rd_channel_frame *first = channel->first;

	free(channel->taken);
	channel->taken = first;
	if (!first)
		return 0;
	channel->first = first->next;
	if (!channel->first)
		channel->end = &channel->first;
	channel->count--;
	*frame = first->bytes;
	return (long)first->size;
}
