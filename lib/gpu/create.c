#include "gpu/create.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "device/region.h"
#include "exec/algorithms.h"
#include "gpu/exports.h"
#include "gpu/launch.h"
#include "gpu/messages.h"
#include "gpu/peers.h"
#include "gpu/progress.h"
#include "gpu/sharers.h"
#include "gpu/stage_memory.h"

/* Comms with devices in one process, at one time. */
#define STREAM_FLAGS_MAX 256

/* Queues of a process on a CUDA device, where CUDA_DEVICE_MAX_CONNECTIONS is not set. */
#define USUAL_QUEUES 8
/* The one that it calls on, one for what it computes meanwhile, and the gpu's own. */
#define STREAMS_OF_A_RANK 3
/* The library's own on a device, for all ranks of a process. */
#define STREAMS_OF_A_DEVICE 1
/* Blocks that wait for peers, on a device, take at most one part in this many of its room: there is
   room for kernels of the program. */
#define SHARE_OF_ROOM 4
/* Blocks of a rank that has a device to itself, where RONDO_GPU_BLOCKS does not say. */
#define USUAL_BLOCKS 32

/* ---- Settings ------------------------------------------------------------------------------ */

static const char *kernel_name(enum rd_kernel kernel)
{
	static const char *const names[] = {
#define NAME(name, text) text,
		RD_KERNELS(NAME)
#undef NAME
	};

	return names[kernel];
}

/* RONDO_SETTING where the text of RONDO_KERNEL is none. */
static int kernel_read(const char *text, enum rd_kernel *kernel)
{
	for (int i = 0; i < RD_KERNEL_COUNT; i++) {
		if (strcmp(text, kernel_name(i)) != 0)
			continue;
		*kernel = i;
		return 0;
	}
	return rd_fail(RONDO_SETTING,
		"RONDO_KERNEL is \"%.40s\": choose auto, fused, stepped, messages or staged", text);
}

/* There is no device, for the recorded reason: an error where a setting names one. */
static int refuse_without(const struct rd_settings *settings)
{
	if (settings->gpu >= 0)
		return rd_fail(RONDO_UNSUPPORTED,
			"rank %d is to use device %d (RONDO_GPU, or gpu in struct rondo_config), "
			"but %s",
			settings->rank, settings->gpu, rondo_last_error());
	if (!strcmp(settings->device, "auto") || !strcmp(settings->device, "none"))
		return 0;
	return rd_fail(RONDO_UNSUPPORTED,
		"RONDO_DEVICE is \"%s\", but %s; without it, host memory alone is used",
		settings->device, rondo_last_error());
}

int rd_gpu_device(const struct rd_settings *settings, int *device, uint32_t *pci)
{
	enum rd_kernel kernel;
	int err = rd_device_check(settings->device);

	*device = -1;
	if (!err)
		err = kernel_read(settings->kernel, &kernel);
	if (err)
		return err;

	const struct rd_device_ops *ops = rd_device(settings->gpu >= 0);

	if (!ops)
		return refuse_without(settings);
	*device = settings->gpu >= 0 ? settings->gpu : ops->current();
	if (*device < 0 && strcmp(settings->device, "auto") != 0)
		*device = settings->rank % ops->count();
	if (*device >= ops->count())
		return rd_fail(RONDO_SETTING,
			"rank %d is to use device %d, but there are %d here: set RONDO_GPU, or gpu "
			"in struct rondo_config, to one of 0 to %d",
			settings->rank, *device, ops->count(), ops->count() - 1);
	*pci = *device >= 0 ? ops->pci(*device) : 0;
	return 0;
}

/* ---- Stream flags -------------------------------------------------------------------------- */

static pthread_mutex_t stream_flags_lock = PTHREAD_MUTEX_INITIALIZER;
static _Alignas(4096) struct rd_stream_flags all_stream_flags[STREAM_FLAGS_MAX];

static int stream_flags_get(struct rd_gpu *gpu)
{
	static bool shared;
	int err = 0;

	pthread_mutex_lock(&stream_flags_lock);
	if (!shared)
		err = gpu->ops->share(gpu->device, all_stream_flags, sizeof(all_stream_flags));
	shared |= !err;
	for (int i = 0; i < STREAM_FLAGS_MAX && !err && !gpu->stream_flags; i++) {
		if (all_stream_flags[i].taken)
			continue;
		gpu->stream_flags = &all_stream_flags[i];
		gpu->stream_flags->taken = true;
	}
	pthread_mutex_unlock(&stream_flags_lock);
	if (!err && !gpu->stream_flags)
		err = rd_fail(RONDO_UNSUPPORTED, "at most %d comms of a process have a device",
			STREAM_FLAGS_MAX);
	return err;
}

static void stream_flags_put(struct rd_gpu *gpu)
{
	if (!gpu->stream_flags)
		return;
	pthread_mutex_lock(&stream_flags_lock);
	gpu->stream_flags->taken = false;
	pthread_mutex_unlock(&stream_flags_lock);
}

/* ---- How kernels run ----------------------------------------------------------------------- */

/* Ranks on one device, in processes that do not run at the same time: a kernel that spins there
   starves the peer that it waits for. */
static bool takes_turns(const struct rd_gpu *gpu, const struct rd_gpu_card *cards)
{
	const struct rd_member *members = rd_control_members(gpu->comm->control);

	for (int a = 0; a < gpu->comm->size; a++)
		for (int b = 0; b < a; b++)
			if (members[a].place.device_pci == members[b].place.device_pci &&
				!rd_peers_one_process(gpu->comm, a, b) &&
				!(cards[a].at_once && cards[b].at_once))
				return true;
	return false;
}

static int ranks_on(const struct rd_gpu *gpu, uint32_t device_pci)
{
	const struct rd_member *members = rd_control_members(gpu->comm->control);
	int ranks = 0;

	for (int rank = 0; rank < gpu->comm->size; rank++)
		ranks += members[rank].place.device_pci == device_pci;
	return ranks;
}

/* Some ranks are threads of one process on one device. */
static bool any_share(const struct rd_gpu *gpu)
{
	const struct rd_member *members = rd_control_members(gpu->comm->control);

	for (int a = 0; a < gpu->comm->size; a++)
		for (int b = 0; b < a; b++)
			if (members[a].place.device_pci == members[b].place.device_pci &&
				rd_peers_one_process(gpu->comm, a, b))
				return true;
	return false;
}

/* All kernels that wait for each other on a device must be resident at once. */
static void share_out_blocks(struct rd_gpu *gpu, const struct rd_gpu_card *cards)
{
	const struct rd_member *members = rd_control_members(gpu->comm->control);

	gpu->blocks = RD_WORK_BLOCKS;
	for (int rank = 0; rank < gpu->comm->size; rank++) {
		int share = cards[rank].blocks / SHARE_OF_ROOM /
			    ranks_on(gpu, members[rank].place.device_pci);

		if (share > cards[rank].most_blocks)
			share = cards[rank].most_blocks;

		if (share < gpu->blocks)
			gpu->blocks = share > 1 ? share : 1;
	}
}

static bool is_one_process(const struct rd_gpu *gpu)
{
	for (int peer = 0; peer < gpu->comm->size; peer++)
		if (!rd_peers_one_process(gpu->comm, peer, gpu->comm->rank))
			return false;
	return true;
}

/* Logs the way from here to each peer's device memory, in NCCL's form. */
static void log_routes(const struct rd_gpu *gpu)
{
	const struct rd_member *members = rd_control_members(gpu->comm->control);
	int rank = gpu->comm->rank;

	for (int peer = 0; peer < gpu->comm->size; peer++)
		if (peer != rank && (!gpu->messages || rd_messages_link(gpu->messages, rank, peer)))
			rd_log(RD_INFO, RD_ROUTE, "Channel 00 : %d[%x] -> %d[%x] via P2P/%s", rank,
				members[rank].place.device_pci, peer,
				members[peer].place.device_pci,
				gpu->same_process[peer] ? "direct pointer" : "IPC");
}

/* RONDO_ALGO names one that sends messages. */
static bool names_messages(const struct rondo_comm *comm)
{
	const struct rd_algorithm *named = rd_algorithm_called(comm->settings.algo);

	return named && !named->direct_access;
}

/*
 * By direct access where all ranks reach each other; by messages where some do not, or RONDO_ALGO
 * names them; through host memory where neither can be. Where processes take turns on a device,
 * every rank reaches every other, and nothing may spin: there are no messages.
 */
static bool wants_messages(const struct rd_gpu *gpu, bool direct, bool turns)
{
	const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");

	/* The driver ends one kernel before it launches the next: none may wait for another. */
	if (gpu->shared && blocking && !strcmp(blocking, "1"))
		return false;
	if (gpu->comm->size > RD_WORK_RANKS)
		return false;
	return gpu->kernel == RD_KERNEL_MESSAGES ||
	       (gpu->kernel == RD_KERNEL_AUTO && !turns && (!direct || names_messages(gpu->comm)));
}

/* Replaces the setting in gpu->kernel by the way that calls run. Returns the reason, to log. */
static const char *choose_kernel(struct rd_gpu *gpu, bool direct, bool turns)
{
	enum rd_kernel setting = gpu->kernel;

	gpu->kernel = gpu->messages                            ? RD_KERNEL_MESSAGES
		      : setting == RD_KERNEL_STAGED || !direct ? RD_KERNEL_STAGED
		      : setting == RD_KERNEL_STEPPED           ? RD_KERNEL_STEPPED
		      : setting == RD_KERNEL_FUSED || !turns   ? RD_KERNEL_FUSED
							       : RD_KERNEL_STEPPED;
	gpu->one_process = is_one_process(gpu);
	gpu->spins = gpu->kernel == RD_KERNEL_FUSED && !gpu->shared;
	if (setting == gpu->kernel)
		return "RONDO_KERNEL";
	if (gpu->messages && names_messages(gpu->comm))
		return "the named algorithm sends messages";
	if (gpu->kernel == RD_KERNEL_STAGED && gpu->comm->size > RD_WORK_RANKS)
		return "more ranks than kernels know";
	if (gpu->messages || gpu->kernel == RD_KERNEL_STAGED)
		return "not all ranks reach each other's device memory";
	if (turns)
		return "processes take turns on one device";
	return gpu->one_process ? "all ranks in one process" : "all ranks run at the same time";
}

/* Ranks of this process on this gpu's device; 0: this is not the lowest of them. */
static int ranks_in_process(const struct rd_gpu *gpu)
{
	const struct rd_member *members = rd_control_members(gpu->comm->control);
	int rank = gpu->comm->rank, ranks = 1;

	for (int peer = 0; peer < gpu->comm->size; peer++) {
		if (peer == rank || !rd_peers_one_process(gpu->comm, peer, rank) ||
			members[peer].place.device_pci != members[rank].place.device_pci)
			continue;
		if (peer < rank)
			return 0;
		ranks++;
	}
	return ranks;
}

/*
 * A process's streams share a few queues of a device, and wait for what is before them there: a
 * kernel may be behind the one that waits for it. The driver reads the variable when it
 * starts, and a library does not write a running program's environment.
 */
static void warn_of_few_queues(const struct rd_gpu *gpu)
{
	const char *set = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	int queues = set ? atoi(set) : USUAL_QUEUES, ranks = ranks_in_process(gpu);

	if (ranks > 1 && STREAMS_OF_A_RANK * ranks + STREAMS_OF_A_DEVICE > queues)
		rd_log(RD_WARN, RD_ROUTE,
			"%d ranks of this process share CUDA device %d, where its streams have %d "
			"queues: set CUDA_DEVICE_MAX_CONNECTIONS=32 before the program starts, or "
			"they may wait for each other in vain",
			ranks, gpu->device, queues);
}

static int find_kernel(struct rd_gpu *gpu, const struct rd_gpu_card *cards)
{
	bool direct, turns = takes_turns(gpu, cards);
	const char *reason;
	int err;

	rd_peers_find_own_process(gpu);
	gpu->shared = any_share(gpu);
	share_out_blocks(gpu, cards);
	err = rd_sharers_join(gpu);
	if (!err)
		err = rd_peers_try(gpu, cards, &direct);
	if (!err && wants_messages(gpu, direct, turns))
		err = rd_messages_create(gpu);
	if (err)
		return err;
	reason = choose_kernel(gpu, direct, turns);
	if (direct || gpu->messages)
		log_routes(gpu);
	rd_log(RD_INFO, RD_ROUTE, "rank %d on %s device %d: %s (%s)", gpu->comm->rank,
		gpu->ops->name, gpu->device, kernel_name(gpu->kernel), reason);
	warn_of_few_queues(gpu);
	return 0;
}

/* ---- Making -------------------------------------------------------------------------------- */

static int check_kernels(const struct rondo_comm *comm, const struct rd_gpu_card *cards)
{
	for (int rank = 1; rank < comm->size; rank++)
		if (cards[rank].kernel != cards[0].kernel)
			return rd_fail(RONDO_MISMATCH,
				"RONDO_KERNEL is \"%s\" on rank %d and \"%s\" on rank 0: "
				"give it the same value on every rank",
				kernel_name(cards[rank].kernel), rank,
				kernel_name(cards[0].kernel));
	return 0;
}

/* The calls that made the gpu are not the user's. */
static void reset_calls(struct rondo_comm *comm)
{
	comm->calls = 0;
	comm->activity.digest = 0;
	atomic_store(&comm->activity.calls, 0);
	atomic_store(&comm->activity.done, 0);
	atomic_store(comm->watched_done, 0);
	atomic_store(&comm->activity.collective, -1);
	atomic_store(&comm->activity.slept_in, 0); /* its number names another call from now on */
}

static void write_card(struct rd_gpu *gpu, struct rd_gpu_card *card)
{
	memset(card, 0, sizeof(*card));
	kernel_read(gpu->comm->settings.kernel, &gpu->kernel);
	card->kernel = gpu->kernel;
	card->at_once = gpu->ops->shared_at_once(gpu->device);
	card->blocks = gpu->ops->blocks(gpu->device);
	card->most_blocks =
		gpu->comm->settings.gpu_blocks ? gpu->comm->settings.gpu_blocks : USUAL_BLOCKS;
	if (gpu->comm->size > 1 && gpu->kernel != RD_KERNEL_STAGED &&
		gpu->kernel != RD_KERNEL_MESSAGES)
		rd_peers_offer(gpu, card);
}

static int exchange_cards(struct rd_gpu *gpu)
{
	struct rondo_comm *comm = gpu->comm;
	struct rd_gpu_card card, *cards = calloc((size_t)comm->size, sizeof(*cards));
	int err;

	if (!cards)
		return rd_fail(RONDO_MEMORY, "no memory for the cards of %d ranks", comm->size);
	err = rd_peers_connect(gpu);
	if (err) {
		free(cards);
		return err;
	}
	write_card(gpu, &card);
	err = rd_peers_gather(gpu, &card, cards, sizeof(card));
	for (int rank = 0; rank < comm->size && !err; rank++)
		if ((unsigned)cards[rank].kernel >= RD_KERNEL_COUNT)
			err = rd_fail(
				RONDO_PROTOCOL, "rank %d sent a card that makes no sense", rank);
	if (!err)
		err = check_kernels(comm, cards);
	if (!err && comm->size == 1)
		gpu->kernel = RD_KERNEL_STAGED;
	else if (!err)
		err = find_kernel(gpu, cards);
	free(cards);
	reset_calls(comm);
	return err;
}

/* Host memory that the device addresses. */
static int alloc_shared(struct rd_gpu *gpu, size_t size, void **memory)
{
	int err = rd_region_alloc(memory, size);

	if (err)
		return err;
	err = gpu->ops->share(gpu->device, *memory, size);
	if (err)
		rd_region_free(*memory);
	return err;
}

static void free_shared(struct rd_gpu *gpu, void *memory)
{
	if (!memory)
		return;
	gpu->ops->unshare(gpu->device, memory);
	rd_region_free(memory);
}

static int open_gpu(struct rd_gpu *gpu)
{
	void *host_flags, *own_flags;
	/* The stream first: sharing memory would open another device, had none been opened yet. */
	int err = gpu->ops->stream_create(gpu->device, &gpu->stream);

	if (!err)
		err = stream_flags_get(gpu);
	if (!err)
		err = alloc_shared(gpu, sizeof(*gpu->host_flags), &host_flags);
	if (err)
		return err;
	gpu->host_flags = gpu->peer_flags[gpu->comm->rank % RD_WORK_RANKS] = host_flags;
	err = alloc_shared(gpu, sizeof(*gpu->own_flags), &own_flags);
	if (err)
		return err;
	gpu->own_flags = own_flags;
	gpu->number = gpu->stream_flags->finished;
	gpu->async_error = rd_async_error_create(&gpu->host_flags->abort_flag);
	return gpu->async_error ? 0 : rd_fail(RONDO_MEMORY, "no memory for a comm's device");
}

static bool all_have_devices(const struct rondo_comm *comm)
{
	const struct rd_member *members = comm->control ? rd_control_members(comm->control) : NULL;

	for (int rank = 0; rank < comm->size && members; rank++) {
		if (members[rank].place.device >= 0)
			continue;
		rd_log(RD_INFO, RD_ROUTE, "rank %d has no device: all handle host memory alone",
			rank);
		return false;
	}
	return true;
}

/* Memory that calls would have to wait for. */
static int make_ahead(struct rd_gpu *gpu)
{
	if (!rd_gpu_goes_directly(gpu))
		return rd_stage_create(gpu);
	return gpu->one_process && gpu->spins ? rd_transfers_make_lists(gpu) : 0;
}

int rd_gpu_create(struct rondo_comm *comm)
{
	if (comm->local.place.device < 0 || !all_have_devices(comm))
		return 0;

	struct rd_gpu *gpu = calloc(1, sizeof(*gpu));

	if (!gpu)
		return rd_fail(RONDO_MEMORY, "no memory for a comm's device");
	comm->gpu = gpu;
	gpu->comm = comm;
	gpu->ops = rd_device(true);
	gpu->device = comm->local.place.device;
	pthread_mutex_init(&gpu->imports_lock, NULL);

	int err = open_gpu(gpu);

	if (!err)
		err = exchange_cards(gpu);
	if (!err && comm->size > 1)
		err = make_ahead(gpu);
	return err ? err : rd_progress_create(gpu);
}

/* ---- Ending -------------------------------------------------------------------------------- */

void rd_gpu_finish(struct rd_gpu *gpu)
{
	if (!gpu)
		return;
	rd_progress_destroy(gpu->progress);
	gpu->progress = NULL;
}

/* Streams and devices may still access these, where they did not end. */
static void free_device_parts(struct rd_gpu *gpu)
{
	if (gpu->stream)
		gpu->ops->stream_destroy(gpu->device, gpu->stream);
	rd_stage_destroy(gpu->stage);
	rd_bounces_free(gpu);
	rd_imports_drop(gpu);
	rd_peers_unmap(gpu);
	rd_transfers_free_lists(gpu);
	rd_messages_destroy(gpu->messages);
	free_shared(gpu, gpu->own_flags);
	free_shared(gpu, gpu->host_flags);
	stream_flags_put(gpu);
}

void rd_gpu_destroy(struct rd_gpu *gpu)
{
	if (!gpu)
		return;
	rd_gpu_finish(gpu);
	if (gpu->async_error)
		rd_async_error_close(gpu->async_error);
	rd_device_stream_put(gpu->last);
	if (gpu->broken) {
		/* It may never end. */
		rd_device_stream_put(gpu->device_stream);
	} else {
		rd_device_stream_destroy(gpu->device_stream);
		free_device_parts(gpu);
	}
	rd_sharers_leave(gpu);
	for (int i = 0; i < RD_COLLECTIVE_COUNT; i++)
		for (int root = 0; root < RD_WORK_RANKS; root++)
			rd_plan_destroy(gpu->plans[i][root]);
	rd_async_error_release(gpu->async_error);
	pthread_mutex_destroy(&gpu->imports_lock);
	free(gpu);
}
