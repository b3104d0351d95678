/* A moment in a spin, in which the core's other thread may work. */
#ifndef RD_PAUSE_H
#define RD_PAUSE_H

static inline void rd_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
