/* The locks that CUDA holds while it waits: for code that is loaded, and the context's. */
#include "base/futex.h"
#include "state.h"

#define STREAMS_MAX 64
#define LOADING_MS 5000

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	CUstream stream;
	int priority;
} streams[STREAMS_MAX];

void wait_for_locks(void)
{
	pthread_mutex_lock(&driver_lock);
	pthread_mutex_unlock(&driver_lock);
	if (current() < 0)
		return;
	pthread_mutex_lock(&current_context()->lock);
	pthread_mutex_unlock(&current_context()->lock);
}

static int find_stream(CUstream stream)
{
	for (int i = 0; i < STREAMS_MAX; i++)
		if (streams[i].stream == stream)
			return i;
	return -1;
}

void stream_add(CUstream stream, int priority)
{
	pthread_mutex_lock(&streams_lock);

	int room = find_stream(NULL);

	if (room >= 0) {
		streams[room].stream = stream;
		streams[room].priority = priority;
	}
	pthread_mutex_unlock(&streams_lock);
}

void stream_remove(CUstream stream)
{
	pthread_mutex_lock(&streams_lock);

	int at = find_stream(stream);

	if (at >= 0)
		streams[at].stream = NULL;
	pthread_mutex_unlock(&streams_lock);
}

bool stream_priority(CUstream stream, int *priority)
{
	pthread_mutex_lock(&streams_lock);

	int at = find_stream(stream);

	if (at >= 0)
		*priority = streams[at].priority;
	pthread_mutex_unlock(&streams_lock);
	return at >= 0;
}

static void pass_flag(void *flag)
{
	rd_flag_write(flag, 1);
}

bool stream_drain(CUstream stream)
{
	static uint32_t flags[STREAMS_MAX];
	static _Atomic int turn;
	uint32_t *flag = &flags[turn++ % STREAMS_MAX];
	struct rd_work work = {
		.type = EMULATED_CALL, .in = { (const char *)pass_flag }, .out = { (char *)flag }
	};

	*flag = 0;
	if (rd_emulated.run(current(), stream, &work))
		return false;
	for (int ms = 0; ms < LOADING_MS && !rd_flag_reached(flag, 1); ms++)
		rd_flag_sleep(flag, 0, 1000000);
	return rd_flag_reached(flag, 1);
}

static bool drain_all(void)
{
	CUstream running[STREAMS_MAX];
	bool drained = true;

	pthread_mutex_lock(&streams_lock);
	for (int i = 0; i < STREAMS_MAX; i++)
		running[i] = streams[i].stream;
	pthread_mutex_unlock(&streams_lock);
	for (int i = 0; i < STREAMS_MAX && drained; i++)
		drained = !running[i] || stream_drain(running[i]);
	return drained;
}

EXPORT int emulated_load(void)
{
	bool drained;

	pthread_mutex_lock(&driver_lock);
	drained = drain_all();
	pthread_mutex_unlock(&driver_lock);
	return !drained;
}

bool wait_for_device(void)
{
	bool drained;

	pthread_mutex_lock(&current_context()->lock);
	drained = drain_all();
	pthread_mutex_unlock(&current_context()->lock);
	return drained;
}
