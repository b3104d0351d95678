/* Sizes and names of types and operations. */
#include <criterion/criterion.h>

#include "rondo.h"

Test(type, types_and_operations_have_sizes_and_names)
{
	cr_assert_eq(rondo_type_size(RONDO_I8), 1);
	cr_assert_eq(rondo_type_size(RONDO_BF16), 2);
	cr_assert_eq(rondo_type_size(RONDO_F32), 4);
	cr_assert_eq(rondo_type_size(RONDO_U64), 8);
	cr_assert_eq(rondo_type_size(RONDO_F8E4M3), 1);
	cr_assert_str_eq(rondo_type_name(RONDO_BF16), "bf16");
	cr_assert_str_eq(rondo_type_name(RONDO_F8E5M2), "f8e5m2");
	cr_assert_eq(rondo_type_size(RONDO_U16), 2);
	cr_assert_str_eq(rondo_type_name(RONDO_I16), "i16");
	cr_assert_eq(rondo_type_size(RONDO_BOOL), 1);
	cr_assert_eq(rondo_type_size(RONDO_COMPLEX64), 8);
	cr_assert_eq(rondo_type_size(RONDO_COMPLEX128), 16);
	cr_assert_str_eq(rondo_type_name(RONDO_COMPLEX64), "complex64");
	cr_assert_str_eq(rondo_op_name(RONDO_AVG), "avg");
}

/* Programs that were built with an earlier header pass these numbers. */
Test(type, numbers_of_types_stay)
{
	cr_assert_eq(RONDO_I8, 0);
	cr_assert_eq(RONDO_F16, 6);
	cr_assert_eq(RONDO_F64, 9);
	cr_assert_eq(RONDO_F8E5M2, 11);
	cr_assert_eq(RONDO_U16, 13);
	cr_assert_eq(RONDO_COMPLEX128, 16);
}

Test(type, what_is_none_has_size_0_and_a_question_mark)
{
	cr_assert_eq(rondo_type_size((rondo_type)99), 0);
	cr_assert_eq(rondo_type_size((rondo_type)-1), 0);
	cr_assert_str_eq(rondo_type_name(RONDO_TYPE_COUNT), "?");
	cr_assert_str_eq(rondo_op_name((rondo_op)1000), "?");
}
