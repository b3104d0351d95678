#ifndef RONDO_TORCH_MESSAGES_H
#define RONDO_TORCH_MESSAGES_H

/* Messages between two ranks. */

#include "collectives.h"

namespace rondo_torch
{

inline void check_peer(const Checks &checks, int peer, int self, int size)
{
	if (peer < 0 || peer >= size)
		checks.refuse("invalid rank: " + std::to_string(peer));
	if (peer == self)
		checks.refuse("the peer is this rank itself");
}

inline void check_tag(const Checks &checks, int tag)
{
	if (tag != 0)
		checks.refuse("tags other than 0 are not supported, got " + std::to_string(tag));
}

inline WorkPointer Group::send(Tensors &tensors, int to, int tag)
{
	Checks checks("send");

	checks.single(tensors);
	check_peer(checks, to, getRank(), getSize());
	check_tag(checks, tag);

	auto made = work(c10d::OpType::SEND, "rondo:send", tensors);
	Type type = moved_type(tensors[0]);
	const void *data = made->input(tensors[0]);

	made->give(tensors);
	return start(made, c10d::kUnsetTimeout, [&] {
		rondo_send(comm_, data, tensors[0].numel() * type.width, type.rondo, to, nullptr);
	});
}

inline WorkPointer Group::recv(Tensors &tensors, int from, int tag)
{
	Checks checks("recv");

	checks.single(tensors);
	check_peer(checks, from, getRank(), getSize());
	check_tag(checks, tag);

	auto made = work(c10d::OpType::RECV, "rondo:recv", tensors);
	Type type = moved_type(tensors[0]);
	void *data = made->output(tensors[0]);

	made->give(tensors);
	return start(made, c10d::kUnsetTimeout, [&] {
		rondo_recv(comm_, data, tensors[0].numel() * type.width, type.rondo, from, nullptr);
	});
}

inline WorkPointer Group::recvAnysource(Tensors &, int)
{
	Checks("recv").refuse("a receive from any rank is not supported: name the source");
}

} // namespace rondo_torch

#endif
