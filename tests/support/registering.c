#include "registering.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "routes.h"

#define RECORDS 64

struct record {
	const struct rd_endpoint *endpoint; /* NULL: free */
	uint64_t id;
	const void *base;
	size_t size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct record records[RECORDS];
static int calls, device_byte = -1;
static bool refuses;
static struct rd_transport registering;

static int listen_renamed(struct rd_endpoint **endpoint, const struct rd_local *local,
	unsigned char card[RD_CARD_MAX], size_t *card_size)
{
	return routes_listen(&registering, endpoint, local, card, card_size);
}

/* Emulated GPUs have a memfd for a dma-buf. */
static int read_device(const struct rd_registration *registration)
{
	struct stat status;
	unsigned char byte;

	if (fstat(registration->dmabuf_fd, &status) < 0 || !S_ISREG(status.st_mode) ||
		pread(registration->dmabuf_fd, &byte, 1, (off_t)registration->dmabuf_offset) != 1)
		return rd_fail(RONDO_SYSTEM, "no dma-buf");
	device_byte = byte;
	return 0;
}

static int record(struct rd_endpoint *endpoint, const struct rd_registration *registration)
{
	for (int i = 0; i < RECORDS; i++) {
		if (records[i].endpoint)
			continue;
		records[i] = (struct record){ endpoint, registration->id, registration->base,
			registration->size };
		return 0;
	}
	return rd_fail(RONDO_MEMORY, "more than %d records", RECORDS);
}

static int attach(struct rd_endpoint *endpoint, const struct rd_registration *registration)
{
	int err;

	pthread_mutex_lock(&lock);
	calls++;
	err = refuses ? rd_fail(RONDO_MEMORY, "no room on the card") : 0;
	if (!err && registration->dmabuf_fd >= 0)
		err = read_device(registration);
	if (!err)
		err = record(endpoint, registration);
	pthread_mutex_unlock(&lock);
	return err;
}

static void detach(struct rd_endpoint *endpoint, uint64_t id)
{
	pthread_mutex_lock(&lock);
	calls++;
	for (int i = 0; i < RECORDS; i++)
		if (records[i].endpoint == endpoint && records[i].id == id)
			records[i].endpoint = NULL;
	pthread_mutex_unlock(&lock);
}

static void forget(const struct rd_endpoint *endpoint)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < RECORDS; i++)
		if (records[i].endpoint == endpoint)
			records[i].endpoint = NULL;
	pthread_mutex_unlock(&lock);
}

static void close_and_forget(struct rd_endpoint *endpoint)
{
	forget(endpoint);
	rd_transport_shm.close(endpoint);
}

void registering_add(void)
{
	registering = rd_transport_shm;
	registering.name = "registers";
	registering.reach = routes_reach;
	registering.listen = listen_renamed;
	registering.open = routes_open;
	registering.attach = attach;
	registering.detach = detach;
	registering.close = close_and_forget;
	cr_assert_eq(rd_transport_add(&registering), 0);
}

void registering_refuse(void)
{
	refuses = true;
}

int registering_count(const void *base, size_t size)
{
	int count = 0;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < RECORDS; i++)
		count += records[i].endpoint && records[i].base == base && records[i].size == size;
	pthread_mutex_unlock(&lock);
	return count;
}

int registering_calls(void)
{
	int now;

	pthread_mutex_lock(&lock);
	now = calls;
	pthread_mutex_unlock(&lock);
	return now;
}

int registering_device_byte(void)
{
	return device_byte;
}
