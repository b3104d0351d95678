#ifndef RONDO_TORCH_MEMORY_H
#define RONDO_TORCH_MEMORY_H

/*
 * Tensors in memory that ranks of one host map: torch's allocator for the CPU, over the one that
 * was there. A tensor has a region of its own, which goes with it: so neither torch, nor a forked
 * child that frees what it inherited, needs to know more than its address.
 */

#include <c10/core/CPUAllocator.h>
#include <sys/resource.h>

#include <atomic>
#include <cstring>

#include "lifetime.h"

namespace rondo_torch
{

/* The process in which this thread's tensors are mapped. A forked child is another one. */
inline thread_local const Process *maps_memory_of = nullptr;

/* Whether tensors that this thread makes now lie in mapped memory. */
inline bool uses_memory()
{
	return maps_memory_of == process;
}

class MappedMemory : public c10::Allocator
{
      public:
	/* Bytes. Calls of fewer gain microseconds, and a region is a descriptor and whole pages. */
	static constexpr size_t least = 64 << 10;

	/* Once. Tensors keep it until the process ends: it is never destroyed. */
	static void install()
	{
		static MappedMemory *installed = nullptr;

		if (installed)
			return;
		installed = new MappedMemory(c10::GetCPUAllocator());
		c10::SetCPUAllocator(installed, UINT8_MAX);
	}

	/* torch has either, by its version. */
	c10::DataPtr allocate(size_t size)
	{
		return allocate_anywhere(size);
	}
	c10::DataPtr allocate(size_t size) const
	{
		return allocate_anywhere(size);
	}

	/* For raw memory alone, of which nobody knows the kind. */
	c10::DeleterFnPtr raw_deleter() const override
	{
		return free_anywhere;
	}

	/* From torch 2.3 on. */
	void copy_data(void *to, const void *from, std::size_t size) const
	{
		std::memcpy(to, from, size);
	}

      private:
	explicit MappedMemory(c10::Allocator *plain)
	{
		plain_ = plain;
	}

	/* Other descriptors of the process, and its peers', must have room. */
	static bool has_descriptors()
	{
		struct rlimit limit;

		return !getrlimit(RLIMIT_NOFILE, &limit) && regions_ < limit.rlim_cur / 4;
	}

	static c10::DataPtr allocate_anywhere(size_t size)
	{
		void *memory;

		if (size < least || !uses_memory() || !has_descriptors())
			return plain_->allocate(size);
		if (rondo_mem_alloc(&memory, size)) {
			TORCH_WARN_ONCE("rondo: tensors lie in plain memory: ", rondo_last_error());
			return plain_->allocate(size);
		}
		regions_++;
		return { memory, memory, free_mapped, c10::Device(c10::DeviceType::CPU) };
	}

	static void free_mapped(void *memory)
	{
		if (!rondo_mem_free(memory))
			regions_--;
	}

	static void free_anywhere(void *memory)
	{
		if (rondo_mem_free(memory))
			plain_->raw_deleter()(memory);
		else if (memory)
			regions_--;
	}

	static inline c10::Allocator *plain_ = nullptr;
	static inline std::atomic<size_t> regions_{ 0 };
};

/* Whether this thread's tensors are mapped from now on. Returns whether they were. */
inline bool use_memory(bool now)
{
	bool before = uses_memory();

	MappedMemory::install();
	maps_memory_of = now ? process : nullptr;
	return before;
}

} // namespace rondo_torch

#endif
