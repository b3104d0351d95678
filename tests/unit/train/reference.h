/*
 * Numbers of PyTorch, recorded in files of fixtures/ by fixtures/make.py, which
 * explains them.
 *
 * Inputs and first parameters follow from their names by a formula: reference_fill() and
 * reference_integer() repeat them to the bit. Results are stored as sums and as every stride-th
 * element. They are exact to nine digits, and PyTorch's own float32 is within 2e-5 of them.
 *
 * A missing or damaged file, an unknown name and a wrong count fail the test.
 */
#ifndef TRAIN_REFERENCE_H
#define TRAIN_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reference;

/* name: "mlp", "convnet", "lenet", "gpt" or "layers". */
struct reference *reference_read(const char *name);
void reference_destroy(struct reference *reference);

/* The number of an entry's elements: those of the tensor, not only the stored ones. */
size_t reference_count(const struct reference *reference, const char *entry);
bool reference_has(const struct reference *reference, const char *entry);

/* out[count] = a tensor by the formula. */
void reference_fill(const struct reference *reference, const char *entry, float *out, size_t count);
/* Element i of integers by the formula: a label or a token. */
int32_t reference_integer(const struct reference *reference, const char *entry, size_t i);
/* How far a recorded number may be from the result: half of the ninth digit. */
#define RECORDED(value) (5e-9 * fabs(value))
/* Element i of a result, which must be stored: a loss, a norm or a rate. */
double reference_value(const struct reference *reference, const char *entry, size_t i);

/*
 * Fails unless values[count] are the result. `tolerance` bounds the error of an element, as a part
 * of the result's greatest stored element or of its root mean square, whichever is greater. The
 * sums see the elements that are not stored.
 */
void reference_expect(const struct reference *reference, const char *entry, const float *values,
	size_t count, double tolerance);
/* The same as a question: *reason says where they differ. */
bool reference_differs(const struct reference *reference, const char *entry, const float *values,
	size_t count, double tolerance, char reason[256]);

#endif
