/* Loops over elements: every variant gives the same bits, so that all ranks keep the same
   parameters, whatever their processors. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/instructions.h"
#include "train/base/fail.h"
#include "train/base/rng.h"
#include "train/device/cpu_elements.h"
#include "train/device/device.h"

#define COUNT 1003 /* no multiple of a vector */

/* The arrays of a step. */
struct state {
	float grad[COUNT], value[COUNT], first[COUNT], second[COUNT];
};

static struct state drawn(void)
{
	struct rng rng = rng_make(3, 0);
	struct state state;
	for (int i = 0; i < COUNT; i++) {
		state.grad[i] = rng_between(&rng, -1, 1);
		state.value[i] = rng_between(&rng, -1, 1);
		state.first[i] = rng_between(&rng, -1, 1);
		state.second[i] = rng_between(&rng, 0, 1);
	}
	return state;
}

/* Steps of all kinds, one after the other; each begins at another element. */
static struct state step_all(struct device *cpu)
{
	static const struct sgd sgds[] = {
		{ .rate = 0.1f },
		{ .rate = 0.1f, .weight_decay = 0.01f },
		{ .rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f, .first = true },
		{ .rate = 0.1f, .momentum = 0.9f, .nesterov = true },
	};
	static const struct adam adams[] = {
		{ .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .step = 3 },
		{ .rate = 0.01f,
			.beta1 = 0.9f,
			.beta2 = 0.999f,
			.epsilon = 1e-8f,
			.weight_decay = 0.1f,
			.decoupled = true,
			.step = 4 },
	};
	static const float factor = 0.7f, none = NAN;
	struct state s = drawn();
	cpu->ops->add(cpu, COUNT - 1, s.grad + 1, s.value, s.value);
	cpu->ops->column_sums(cpu, 3, 301, s.value + 1, s.value + 5 * 31);
	cpu->ops->relu_grad(cpu, COUNT - 3, s.value + 3, s.grad, s.grad + 2);
	cpu->ops->relu(cpu, COUNT - 1, s.first + 1, s.first + 1);
	for (int i = 0; i < 4; i++)
		cpu->ops->sgd(cpu, &sgds[i], COUNT - i, s.grad + i, i % 2 ? &factor : NULL,
			s.value + i, i < 2 ? NULL : s.first + i);
	for (int i = 0; i < 2; i++)
		cpu->ops->adam(cpu, &adams[i], COUNT - i, s.grad + i, i ? &factor : NULL,
			s.value + i, s.first + i, s.second + i);
	struct state before = s;
	cpu->ops->sgd(cpu, &sgds[0], COUNT, s.grad, &none, s.value, NULL);
	cpu->ops->adam(cpu, &adams[0], COUNT, s.grad, &none, s.value, s.first, s.second);
	cr_assert_arr_eq(&s, &before, sizeof(s), "a step by NaN changes nothing");
	return s;
}

Test(elements, all_variants_have_the_same_bits)
{
	struct device *cpu;
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0, "%s", failure());
	cr_assert(cpu_elements_choose("plain"));
	struct state plain = step_all(cpu);
	bool has_avx2 = cpu_elements_choose("avx2");
	cr_assert_eq(has_avx2, rd_has_instructions(RD_AVX2));
	if (!has_avx2)
		cr_skip_test("the processor has no AVX2");
	struct state wide = step_all(cpu);
	cr_assert_arr_eq(&plain, &wide, sizeof(plain));
	device_destroy(cpu);
}
