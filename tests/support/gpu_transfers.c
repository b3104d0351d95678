#include "gpu_transfers.h"

#include <string.h>

/* ThreadSanitizer checks the progress threads of processes in test_gpu.c, which is slow enough. */
void try_transfers(int size, int (*body)(struct rank_env *env), int timeout_ms)
{
	if (ONLY_THREADS)
		try_threads(size, body, timeout_ms);
	else
		try_variants(size, body, timeout_ms, true);
}

static unsigned char byte(int from, int to, int number, size_t i)
{
	return (unsigned char)(i * 31 + i / 251 + (size_t)(from * 7 + to * 13 + number * 5));
}

void fill_message(char *at, int from, int to, int number, size_t size)
{
	for (size_t i = 0; i < size; i++)
		at[i] = (char)byte(from, to, number, i);
}

int check_message(struct rank_env *env, const char *at, int from, int to, int number, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)at[i] != byte(from, to, number, i))
			return world_report(env, "message %d from %d: byte %zu of %zu is %d",
				number, from, i, size, at[i]);
	if (at[size] != 0)
		return world_report(
			env, "message %d from %d wrote behind its %zu bytes", number, from, size);
	return 0;
}

int next_rank(const struct rank_env *env)
{
	return (env->rank + 1) % env->size;
}

int previous_rank(const struct rank_env *env)
{
	return (env->rank + env->size - 1) % env->size;
}

int end_group(struct memory *memory)
{
	int err = rondo_group_end();

	return err || !memory->stream ? err : rondo_stream_synchronize(memory->stream);
}

int shift(struct rank_env *env, struct memory *memory, size_t count, rondo_type type, size_t in_at,
	size_t out_at)
{
	size_t size = count * rondo_type_size(type);
	char *in = (char *)memory->in + in_at, *out = (char *)memory->out + out_at;
	int next = next_rank(env), previous = previous_rank(env);

	fill_message(in, env->rank, next, (int)count, size);
	memset(out, 0, size + 1);
	rondo_group_start();
	rondo_send(env->comm, in, count, type, next, memory->stream);
	rondo_recv(env->comm, out, count, type, previous, memory->stream);
	if (end_group(memory))
		return world_report(
			env, "%zu %s: %s", count, rondo_type_name(type), rondo_last_error());
	return check_message(env, out, previous, env->rank, (int)count, size);
}

bool goes_directly(const struct rank_env *env)
{
	const struct variant *variant = env->argument;

	return variant->becomes == RD_KERNEL_STEPPED || variant->becomes == RD_KERNEL_FUSED;
}
