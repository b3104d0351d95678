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

/* Messages have no order with the group's calls. Its end does not wait for those under way. */
template <typename Prepare>
WorkPointer Group::start_message(const c10::intrusive_ptr<Work> &work, const Prepare &prepare)
{
	/* Without the lock: the start may end messages, whose callbacks start others. */
	Use use(*life_);
	rondo_request *request;

	if (!use)
		throw destroyed();
	check(prepare(life_->comm(), &request));
	work->bound(in_bounds_ms(timeout_));
	work->start(life_, request, false);
	return work;
}

inline WorkPointer Group::send(Tensors &tensors, int to, int tag)
{
	Checks checks("send");

	checks.single(tensors);
	check_peer(checks, to, getRank(), getSize());

	auto made = work(c10d::OpType::SEND, "rondo:send", tensors);
	const void *data = made->input(tensors[0]);

	made->give(tensors);
	return start_message(made, [&](rondo_comm *comm, rondo_request **request) {
		return rondo_send_tagged(comm, data, tensors[0].nbytes(), to, tag, request);
	});
}

inline WorkPointer Group::receive(Tensors &tensors, int from, int tag, c10d::OpType type)
{
	auto made = work(type, "rondo:recv", tensors);
	void *data = made->output(tensors[0]);

	made->give(tensors);
	return start_message(made, [&](rondo_comm *comm, rondo_request **request) {
		return rondo_recv_tagged(comm, data, tensors[0].nbytes(), from, tag, request);
	});
}

inline WorkPointer Group::recv(Tensors &tensors, int from, int tag)
{
	Checks checks("recv");

	checks.single(tensors);
	check_peer(checks, from, getRank(), getSize());
	return receive(tensors, from, tag, c10d::OpType::RECV);
}

inline WorkPointer Group::recvAnysource(Tensors &tensors, int tag)
{
	Checks("recv").single(tensors);
	return receive(tensors, RONDO_ANY_SOURCE, tag, c10d::OpType::RECVANYSOURCE);
}

} // namespace rondo_torch

#endif
