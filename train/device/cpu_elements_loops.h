/* The loops of one variant (cpu_elements.c includes them with VARIANT(name) defined), written for
   the compiler's vectorisation: it needs to know that the arrays of an optimizer do not overlap. */

static void VARIANT(add)(size_t count, const float *a, const float *b, float *out)
{
	for (size_t i = 0; i < count; i++)
		out[i] = a[i] + b[i];
}

static void VARIANT(relu)(size_t count, const float *in, float *out)
{
	for (size_t i = 0; i < count; i++)
		out[i] = in[i] > 0 ? in[i] : 0;
}

static void VARIANT(relu_grad)(
	size_t count, const float *out, const float *out_grad, float *in_grad)
{
	/* Loaded in any case, so that the loop is vectorised: a branch would be a guess. */
	for (size_t i = 0; i < count; i++) {
		float grad = out_grad[i];
		in_grad[i] = out[i] > 0 ? grad : 0;
	}
}

static void VARIANT(sgd)(const struct sgd *sgd, size_t count, float scale,
	const float *restrict grad, float *restrict value, float *restrict momentum)
{
	float rate = sgd->rate, decay = sgd->weight_decay;
	if (!momentum) {
		for (size_t i = 0; i < count; i++)
			value[i] -= rate * (scale * grad[i] + decay * value[i]);
		return;
	}
	float keep = sgd->first ? 0 : sgd->momentum;
	/* Nesterov: the gradient plus momentum times the new buffer; else the buffer alone. */
	float direct = sgd->nesterov, through = sgd->nesterov ? sgd->momentum : 1;
	for (size_t i = 0; i < count; i++) {
		float slope = scale * grad[i] + decay * value[i];
		momentum[i] = keep * momentum[i] + slope;
		value[i] -= rate * (direct * slope + through * momentum[i]);
	}
}

static void VARIANT(adam)(const struct adam *adam, size_t count, float scale,
	const float *restrict grad, float *restrict value, float *restrict mean,
	float *restrict square)
{
	float beta1 = adam->beta1, beta2 = adam->beta2, epsilon = adam->epsilon;
	float coupled = adam->decoupled ? 0 : adam->weight_decay;
	float keep = adam->decoupled ? 1 - adam->rate * adam->weight_decay : 1;
	float rate = (float)(adam->rate / (1 - pow(beta1, adam->step)));
	float root = (float)(1 / sqrt(1 - pow(beta2, adam->step)));
	for (size_t i = 0; i < count; i++) {
		float slope = scale * grad[i] + coupled * value[i];
		mean[i] = beta1 * mean[i] + (1 - beta1) * slope;
		square[i] = beta2 * square[i] + (1 - beta2) * slope * slope;
		value[i] = keep * value[i] - rate * mean[i] / (sqrtf(square[i]) * root + epsilon);
	}
}

static const struct element_loops VARIANT(loops) = {
	.add = VARIANT(add),
	.relu = VARIANT(relu),
	.relu_grad = VARIANT(relu_grad),
	.sgd = VARIANT(sgd),
	.adam = VARIANT(adam),
};

#undef VARIANT
