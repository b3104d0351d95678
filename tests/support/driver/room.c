/* The multiprocessors of devices, and the blocks of kernels on them. */
#include "room.h"

#include "base/clock.h"
#include "base/thread.h"
#include "state.h"

#define REGISTERS 65536
#define THREADS 2048
/* Interval at which blocks that spin read the host's order to stop. */
#define POLL_MS 10

struct processor {
	int registers, threads; /* that are taken */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct processor processors[EMULATED_PROCESSORS];
} devices[DEVICES_MAX];

void room_start(void)
{
	for (int device = 0; device < DEVICES_MAX; device++)
		rd_condition_init(&devices[device].change);
}

int room_blocks(int registers, int threads)
{
	int by_registers = REGISTERS / (registers * threads), by_threads = THREADS / threads;

	return by_registers < by_threads ? by_registers : by_threads;
}

/* Takes room for a block, or gives it back (-1). */
static void account(struct processor *processor, const struct emulated_grid *grid, int blocks)
{
	processor->registers += blocks * grid->registers * grid->threads;
	processor->threads += blocks * grid->threads;
}

/* On the multiprocessor that has the most room. */
static bool place_block(struct emulated_room *room, const struct emulated_grid *grid)
{
	struct processor *processors = devices[room->device].processors;
	int best = 0;

	for (int i = 1; i < EMULATED_PROCESSORS; i++)
		if (processors[i].registers < processors[best].registers)
			best = i;
	if (processors[best].registers + grid->registers * grid->threads > REGISTERS ||
		processors[best].threads + grid->threads > THREADS)
		return false;
	account(&processors[best], grid, 1);
	room->placed[best]++;
	return true;
}

/* Blocks that spin, without the others, until the host stops them, or for too long. */
static bool gave_up(const struct emulated_grid *grid, int64_t since_ns)
{
	return __atomic_load_n(grid->stop, __ATOMIC_ACQUIRE) ||
	       (uint64_t)(rd_clock_ns() - since_ns) > grid->timeout_ns;
}

static void find_room(struct emulated_room *room, const struct emulated_grid *grid)
{
	pthread_cond_t *change = &devices[room->device].change;
	pthread_mutex_t *lock = &devices[room->device].lock;
	int64_t since_ns = rd_clock_ns();
	int placed = 0;

	pthread_mutex_lock(lock);
	for (;;) {
		while (placed < grid->blocks && place_block(room, grid))
			placed++;
		if (placed == grid->blocks || (placed > 0 && !grid->stop) ||
			(placed > 0 && gave_up(grid, since_ns)))
			break;
		rd_condition_wait_ms(change, lock, POLL_MS);
	}
	pthread_mutex_unlock(lock);
}

void emulated_start(struct emulated_room *room, const struct emulated_grid *grid)
{
	CUcontext context = item_context();

	*room = (struct emulated_room){ .device = -1, .grid = *grid };
	if (context) {
		room->device = context->device;
		find_room(room, grid);
	}
	item_start();
}

void emulated_end(struct emulated_room *room)
{
	if (room->device < 0)
		return;
	pthread_mutex_lock(&devices[room->device].lock);
	for (int i = 0; i < EMULATED_PROCESSORS; i++)
		account(&devices[room->device].processors[i], &room->grid, -room->placed[i]);
	pthread_cond_broadcast(&devices[room->device].change);
	pthread_mutex_unlock(&devices[room->device].lock);
}
