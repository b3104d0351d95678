#include "mirror.h"

int bench_mirror_create(
	struct bench_mirror *mirror, void *send, void *recv, size_t size, int device)
{
	*mirror = (struct bench_mirror){ .host = { send, recv }, .size = size, .gpu = device };

	int err = rondo_mem_alloc_on(&mirror->device[0], size, device);

	return err ? err : rondo_mem_alloc_on(&mirror->device[1], size, device);
}

void bench_mirror_destroy(struct bench_mirror *mirror)
{
	rondo_mem_free(mirror->device[0]);
	rondo_mem_free(mirror->device[1]);
}

/* Translates an address in either host buffer to the device. */
static void *on_device(const struct bench_mirror *mirror, void *at)
{
	for (int i = 0; i < 2; i++) {
		char *host = mirror->host[i];

		if ((char *)at >= host && (char *)at < host + mirror->size)
			return (char *)mirror->device[i] + ((char *)at - host);
	}
	return at;
}

struct bench_call bench_mirror_call(
	const struct bench_mirror *mirror, const struct bench_call *call)
{
	struct bench_call there = *call;

	if (mirror && mirror->size > 0) {
		there.send = on_device(mirror, call->send);
		there.recv = on_device(mirror, call->recv);
	}
	return there;
}

int bench_mirror_upload(const struct bench_mirror *mirror)
{
	int err = 0;

	for (int i = 0; mirror && i < 2 && !err; i++)
		err = rondo_copy(mirror->device[i], mirror->host[i], mirror->size, NULL);
	return err;
}

int bench_mirror_download(const struct bench_mirror *mirror)
{
	int err = 0;

	for (int i = 0; mirror && i < 2 && !err; i++)
		err = rondo_copy(mirror->host[i], mirror->device[i], mirror->size, NULL);
	return err;
}
