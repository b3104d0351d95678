#include "pipe.h"

#include <stdlib.h>
#include <string.h>

#include "net.h"

void pipe_clear(struct net_pipe *pipe)
{
	while (pipe->first) {
		struct net_packet *next = pipe->first->next;
		free(pipe->first);
		pipe->first = next;
	}
	pipe->end = &pipe->first;
	pipe->size = 0;
}

void pipe_send_bytes(struct net_pipe *pipe, const unsigned char *bytes, size_t size)
{
	struct net_packet *packet = malloc(sizeof(*packet) + size);

	packet->next = NULL;
	packet->at_ms = net.now_ms + net_draw((uint32_t)net.delay_ms + 1);
	if (packet->at_ms < pipe->last_ms)
		packet->at_ms = pipe->last_ms;
	pipe->last_ms = packet->at_ms;
	packet->size = size;
	if (size)
		memcpy(packet->bytes, bytes, size);
	*pipe->end = packet;
	pipe->end = &packet->next;
}

static void corrupt(unsigned char *bytes, size_t size)
{
	struct rd_control_message message = { .kind = RD_CONTROL_HELLO +
						      (int)net_draw(RD_CONTROL_LAST) };
	unsigned char frame[RD_FRAME_MAX];
	size_t other;

	if (net_draw(4) > 0)
		return;
	if (net_draw(2) == 0) {
		bytes[net_draw((uint32_t)size)] ^= (unsigned char)(1 << net_draw(8));
		return;
	}
	message.left.rank = (int)net_draw(2);
	other = rd_control_encode(&message, frame);
	memcpy(bytes, frame, other < size ? other : size);
}

void pipe_send(struct net_pipe *pipe, struct rd_control_message *message, bool corrupts)
{
	unsigned char frame[RD_FRAME_MAX];
	size_t size = rd_control_encode(message, frame), cut = 1 + net_draw((uint32_t)size - 1);

	if (corrupts)
		corrupt(frame, size);
	pipe_send_bytes(pipe, frame, cut);
	pipe_send_bytes(pipe, frame + cut, size - cut);
}

int pipe_take(struct net_pipe *pipe, struct rd_control_message *message)
{
	int took = rd_control_decode(pipe->bytes, pipe->size, message);

	if (took > 0) {
		pipe->size -= (size_t)took;
		memmove(pipe->bytes, pipe->bytes + took, pipe->size);
		return 1;
	}
	if (took < 0)
		pipe->size = 0;
	return took;
}
