/* ctest label: instructions */
/* The attention layer alone against PyTorch's numbers. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "train/base/fail.h"
#include "train/model/layer.h"
#include "train/reference.h"
#include "train/rounding.h"

#define COUNT_MAX (2 * 5 * 36)

/* Products of 4 and 5 terms, with a softmax of 5 between them, forward or backward. */
#define TOLERANCE ROUNDING(4 + 5 + 5 + 12, 4)

static int ignore_ready(void *argument, int tensor)
{
	(void)argument, (void)tensor;
	return 0;
}

static void check(const char *name, int batch, int rows, int heads, int width)
{
	struct reference *reference = reference_read("layers");
	struct device *cpu;
	struct model *model;
	const struct model_config config = { .rows = rows, .classes = 1, .batch_max = batch };
	float in[COUNT_MAX], in_grad[COUNT_MAX];
	char entry[64];
	size_t out_count = (size_t)batch * rows * heads * width, in_count = 3 * out_count;
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0, "%s", failure());
	cr_assert_eq(model_open(&model, cpu, &config, "Attention"), 0, "%s", failure());
	add_attention(model->root, rows, heads, width);
	cr_assert_eq(model_finish(model, 1), 0, "%s", failure());
	struct pass *pass = model->passes;
	snprintf(entry, sizeof(entry), "%s.input", name);
	reference_fill(reference, entry, in, in_count);
	cr_assert_eq(model_forward(model, pass, in, batch, true), 0);
	snprintf(entry, sizeof(entry), "%s.output", name);
	reference_expect(reference, entry, model_output(model, pass), out_count, TOLERANCE);
	snprintf(entry, sizeof(entry), "%s.output_grad", name);
	reference_fill(reference, entry, model_output_grad(model, pass), out_count);
	cr_assert_eq(model_backward(model, pass, in, in_grad, ignore_ready, NULL), 0);
	snprintf(entry, sizeof(entry), "%s.input_grad", name);
	reference_expect(reference, entry, in_grad, in_count, TOLERANCE);
	model_destroy(model);
	device_destroy(cpu);
	reference_destroy(reference);
}

Test(attention, three_heads_are_pytorchs)
{
	check("attention", 2, 5, 3, 4);
}

Test(attention, one_row_sees_itself_alone)
{
	check("attention_one", 1, 1, 1, 4);
}
