// Gloo, over its TCP transport. PEERS_RANKS says how many ranks to fork, PEERS_STORE names an empty
// directory in which they meet, and PEERS_INTERFACE an interface other than the loopback. With
// PEERS_RANK it forks none, and is this one. With PEERS_POLLING the rank's own thread reads its
// sockets, and polls. Only Gloo's older algorithms can.
//
// prepare() creates what a pair of buffers needs once, outside the time. There
// Gloo's three ways of an all-reduce are tried, and the fastest is taken. Its only reduce-scatter
// works in place and overwrites its input, so this one copies first, as its callers must.
#include <gloo/allgather.h>
#include <gloo/allgather_ring.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "measure.h"
#include "ranks.h"

// Barriers use the first, calls the second.
static std::shared_ptr<gloo::rendezvous::Context> context, calls;
static std::unique_ptr<gloo::AllreduceOptions> all_reduce;
static std::unique_ptr<gloo::AllgatherOptions> all_gather;
static std::unique_ptr<gloo::BroadcastOptions> broadcast;
static std::unique_ptr<gloo::AlltoallOptions> all_to_all;
static std::unique_ptr<gloo::Algorithm> reduce_scatter, halving_doubling, polled;
static std::vector<float> work;

static void barrier(void)
{
	gloo::BarrierOptions options(context);
	gloo::barrier(options);
}

static void larger(void *into, const void *a, const void *b, size_t count)
{
	gloo::max<double>(into, a, b, count);
}

static void add(void *into, const void *a, const void *b, size_t count)
{
	gloo::sum<float>(into, a, b, count);
}

static void greatest(double *value)
{
	gloo::AllreduceOptions options(context);

	options.setOutput(value, 1);
	options.setReduceFunction(larger);
	gloo::allreduce(options);
}

static void run(enum peers_collective collective, const float *send, float *recv, size_t count);

enum way { RING, BCUBE, HALVING_DOUBLING, WAYS };

static void take_way(enum way way, float *send, float *recv, size_t count)
{
	halving_doubling.reset();
	if (way == HALVING_DOUBLING) {
		halving_doubling.reset(new gloo::AllreduceHalvingDoubling<float>(
			calls, std::vector<float *>{ recv }, static_cast<int>(count)));
		return;
	}
	all_reduce.reset(new gloo::AllreduceOptions(context));
	all_reduce->setInput(send, count);
	all_reduce->setOutput(recv, count);
	all_reduce->setReduceFunction(add);
	all_reduce->setAlgorithm(way == RING ? gloo::AllreduceOptions::Algorithm::RING
					     : gloo::AllreduceOptions::Algorithm::BCUBE);
}

// The slowest rank's time of a few runs.
static double try_way(enum way way, float *send, float *recv, size_t count)
{
	int runs = count < 1 << 20 ? 20 : 3;

	take_way(way, send, recv, count);
	run(PEERS_ALL_REDUCE, send, recv, count);
	barrier();
	int64_t start = rd_clock_ns();
	for (int i = 0; i < runs; i++)
		run(PEERS_ALL_REDUCE, send, recv, count);
	double elapsed = static_cast<double>(rd_clock_ns() - start);
	greatest(&elapsed);
	return elapsed;
}

static void prepare_all_reduce(float *send, float *recv, size_t count)
{
	double times[WAYS];
	int best = 0;

	for (int way = 0; way < WAYS; way++) {
		times[way] = try_way(static_cast<enum way>(way), send, recv, count);
		best = times[way] < times[best] ? way : best;
	}
	take_way(static_cast<enum way>(best), send, recv, count);
}

static bool polls(void)
{
	return calls != context;
}

static void prepare(enum peers_collective collective, float *send, float *recv, size_t count)
{
	size_t size = static_cast<size_t>(context->size);

	switch (collective) {
	case PEERS_ALL_REDUCE:
		if (polls())
			take_way(HALVING_DOUBLING, send, recv, count);
		else
			prepare_all_reduce(send, recv, count);
		break;
	case PEERS_REDUCE_SCATTER:
		work.resize(count * size);
		reduce_scatter.reset(new gloo::ReduceScatterHalvingDoubling<float>(calls,
			std::vector<float *>{ work.data() }, static_cast<int>(work.size()),
			std::vector<int>(size, static_cast<int>(count))));
		break;
	case PEERS_ALL_GATHER:
		if (polls()) {
			polled.reset(new gloo::AllgatherRing<float>(calls,
				std::vector<const float *>{ send }, recv, static_cast<int>(count)));
			break;
		}
		all_gather.reset(new gloo::AllgatherOptions(context));
		all_gather->setInput(send, count);
		all_gather->setOutput(recv, count * size);
		break;
	case PEERS_BROADCAST:
		if (polls()) {
			polled.reset(new gloo::BroadcastOneToAll<float>(
				calls, std::vector<float *>{ recv }, count));
			break;
		}
		broadcast.reset(new gloo::BroadcastOptions(context));
		broadcast->setOutput(recv, count);
		broadcast->setRoot(0);
		break;
	default:
		all_to_all.reset(new gloo::AlltoallOptions(context));
		all_to_all->setInput(send, count * size);
		all_to_all->setOutput(recv, count * size);
	}
}

static void run(enum peers_collective collective, const float *send, float *recv, size_t count)
{
	switch (collective) {
	case PEERS_ALL_REDUCE:
		if (halving_doubling) {
			memcpy(recv, send, count * sizeof(float));
			halving_doubling->run();
		} else {
			gloo::allreduce(*all_reduce);
		}
		break;
	case PEERS_REDUCE_SCATTER:
		memcpy(work.data(), send, work.size() * sizeof(float));
		reduce_scatter->run();
		memcpy(recv, work.data(), count * sizeof(float));
		break;
	case PEERS_ALL_GATHER:
		polls() ? polled->run() : gloo::allgather(*all_gather);
		break;
	case PEERS_BROADCAST:
		polls() ? polled->run() : gloo::broadcast(*broadcast);
		break;
	default:
		gloo::alltoall(*all_to_all);
	}
}

// The ranks meet where `prefix` is theirs.
static std::shared_ptr<gloo::rendezvous::Context> connect(
	int rank, int size, const char *prefix, std::shared_ptr<gloo::transport::Device> device)
{
	auto connected = std::make_shared<gloo::rendezvous::Context>(rank, size);
	gloo::rendezvous::FileStore files(getenv("PEERS_STORE"));
	gloo::rendezvous::PrefixStore store(prefix, files);

	connected->connectFullMesh(store, device);
	return connected;
}

static int has(enum peers_collective collective)
{
	return !polls() || collective != PEERS_ALL_TO_ALL;
}

static int live(int rank, int size, int argc, char **argv)
{
	gloo::transport::tcp::attr attr;
	struct peers_library library = {};

	const char *interface = getenv("PEERS_INTERFACE");
	attr.iface = interface ? interface : "lo";
	auto device = gloo::transport::tcp::CreateDevice(attr);
	calls = context = connect(rank, size, "barriers", device);
	if (getenv("PEERS_POLLING"))
		calls = connect(rank, size, "calls", device);
	for (int i = 0; i < size && polls(); i++)
		if (i != rank)
			calls->getPair(i)->setSync(true, true);
	library.rank = rank;
	library.size = size;
	library.barrier = barrier;
	library.greatest = greatest;
	library.has = has;
	library.run = run;
	library.prepare = prepare;
	library.has_threads = !polls();
	int status = peers_measure(&library, argc, argv);
	barrier(); // a rank that leaves first breaks the others' connections
	fflush(stdout);
	_exit(status); // its destructors would wait on each other
}

struct arguments {
	int size, argc;
	char **argv;
};

static int try_live(int rank, void *argument)
{
	const struct arguments *arguments = static_cast<struct arguments *>(argument);

	try {
		return live(rank, arguments->size, arguments->argc, arguments->argv);
	} catch (const std::exception &e) {
		fprintf(stderr, "gloo: rank %d: %s\n", rank, e.what());
		return 1;
	}
}

int main(int argc, char **argv)
{
	const char *ranks = getenv("PEERS_RANKS"), *rank_alone = getenv("PEERS_RANK");
	struct arguments arguments = { ranks ? atoi(ranks) : 0, argc, argv };

	if (arguments.size < 1 || arguments.size > PEERS_RANKS_MOST || !getenv("PEERS_STORE")) {
		fprintf(stderr, "set PEERS_RANKS to 1 to %d, and PEERS_STORE\n", PEERS_RANKS_MOST);
		return 2;
	}
	if (rank_alone)
		return try_live(atoi(rank_alone), &arguments);
	return peers_ranks_run("gloo", arguments.size, try_live, nullptr, &arguments);
}
