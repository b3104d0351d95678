/* The reader of PyTorch's numbers: its formula, and whether it sees a difference. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "train/reference.h"

Test(reference, the_formula_is_that_of_the_script)
{
	struct reference *reference = reference_read("mlp");
	static const int32_t labels[] = { 6, 2, 9, 1, 9 };
	size_t count = reference_count(reference, "linear_relu_stack.0.weight");
	float *weight = malloc(count * sizeof(float));
	cr_assert(weight);
	cr_assert_eq(count, 784 * 512);
	reference_fill(reference, "linear_relu_stack.0.weight", weight, count);
	/* As make.py computes them. */
	cr_assert_eq(weight[0], -0.029457464814186096f);
	cr_assert_eq(weight[1], -0.007257059216499329f);
	cr_assert_eq(weight[401407], 0.014593154191970825f);
	for (size_t i = 0; i < 5; i++)
		cr_assert_eq(reference_integer(reference, "labels.0", i), labels[i]);
	free(weight);
	reference_destroy(reference);
}

/* An entry whose values are known without a model. */
Test(reference, a_wrong_element_differs)
{
	struct reference *reference = reference_read("layers");
	char reason[256];
	float values[45];
	reference_fill(reference, "relu.input", values, 45);
	/* The values are exact: any tolerance will do that is below the error. */
	cr_assert(reference_differs(reference, "relu.output", values, 45, 1e-6, reason));
	for (int i = 0; i < 45; i++)
		values[i] = fmaxf(values[i], 0);
	reference_expect(reference, "relu.output", values, 45, 1e-6);
	cr_assert(reference_differs(reference, "relu.output", values, 44, 1e-6, reason));
	for (int i = 0; i < 45; i++) {
		float right = values[i];
		values[i] = right + 1e-5f;
		cr_assert(reference_differs(reference, "relu.output", values, 45, 1e-6, reason));
		values[i] = NAN;
		cr_assert(reference_differs(reference, "relu.output", values, 45, 1e-6, reason));
		values[i] = right;
	}
	cr_assert_not(reference_has(reference, "relu.other"));
	reference_destroy(reference);
}
