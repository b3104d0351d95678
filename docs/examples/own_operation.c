/*
 * Operations of one's own, on elements of one's own: the greatest value with the rank that has it
 * (MPI's MAXLOC), and the product of matrices, which depends on the order of the ranks.
 *
 *     rondo-run --nproc-per-node 4 ./own_operation
 */
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct place {
	double value;
	int64_t rank;
};

struct matrix {
	double at[2][2];
};

/* Ends this rank and prints the reason. The other ranks' next calls then return an error. */
static void check(int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", rondo_error_name(err), rondo_last_error());
	exit(1);
}

/*
 * into[i] = a[i] op b[i], where `a` comes from lower ranks than `b`. `into` may be a or b. Elements
 * of one's own size need not be aligned: memcpy() reads them.
 */
static void greater(
	void *into, const void *a, const void *b, size_t count, rondo_type type, void *argument)
{
	struct place left, right;

	(void)type;
	(void)argument;
	for (size_t i = 0; i < count; i++) {
		memcpy(&left, (const char *)a + i * sizeof(left), sizeof(left));
		memcpy(&right, (const char *)b + i * sizeof(right), sizeof(right));
		if (right.value > left.value)
			left = right;
		memcpy((char *)into + i * sizeof(left), &left, sizeof(left));
	}
}

static void multiply(
	void *into, const void *a, const void *b, size_t count, rondo_type type, void *argument)
{
	(void)type;
	(void)argument;
	for (size_t i = 0; i < count; i++) {
		struct matrix left, right, product = { { { 0 } } };

		memcpy(&left, (const char *)a + i * sizeof(left), sizeof(left));
		memcpy(&right, (const char *)b + i * sizeof(right), sizeof(right));
		for (int row = 0; row < 2; row++)
			for (int column = 0; column < 2; column++)
				for (int k = 0; k < 2; k++)
					product.at[row][column] +=
						left.at[row][k] * right.at[k][column];
		memcpy((char *)into + i * sizeof(product), &product, sizeof(product));
	}
}

int main(void)
{
	struct place places[2];
	struct matrix matrix;
	double factor, value = 1;
	rondo_comm *comm;
	rondo_op max_place, product, weighted;
	int rank;

	check(rondo_comm_create(&comm, NULL));
	rank = rondo_comm_rank(comm);
	/* Every rank creates the same operations in the same order. */
	check(rondo_op_create(comm, &max_place, greater, sizeof(struct place), NULL));
	check(rondo_op_create(comm, &product, multiply, sizeof(struct matrix), NULL));
	factor = 1.0 / (rank + 1);
	check(rondo_op_create_premul(comm, &weighted, &factor, RONDO_F64));

	/* Two elements, of which rank 1 has the greatest first value, and rank 0 the second. */
	places[0] = (struct place){ .value = rank % 2 ? 10.0 / rank : 0, .rank = rank };
	places[1] = (struct place){ .value = -rank, .rank = rank };
	/* The type is bytes, and so is the count. */
	check(rondo_all_reduce(comm, places, places, sizeof(places), RONDO_U8, max_place, NULL));
	printf("rank %d: the greatest are %g on rank %d and %g on rank %d\n", rank, places[0].value,
		(int)places[0].rank, places[1].value, (int)places[1].rank);

	/* Rank 0's matrix is the leftmost. */
	matrix = (struct matrix){ { { 1, rank + 1 }, { rank % 2, 1 } } };
	check(rondo_all_reduce(comm, &matrix, &matrix, sizeof(matrix), RONDO_U8, product, NULL));
	printf("rank %d: the product is %g %g / %g %g\n", rank, matrix.at[0][0], matrix.at[0][1],
		matrix.at[1][0], matrix.at[1][1]);

	/* A sum, to which each rank brings its value times its own factor. */
	check(rondo_all_reduce(comm, &value, &value, 1, RONDO_F64, weighted, NULL));
	printf("rank %d: the weighted sum is %.4f\n", rank, value);
	check(rondo_comm_destroy(comm)); /* and with it its operations */
	return 0;
}
