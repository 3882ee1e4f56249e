# title: the batch stride of the left matrix is used for the right one
# base: honest/h_bmm_strides
# replace: b_ptr += batch * stride_bb => b_ptr += batch * stride_ab // 2
# expect: wrong value. | crashed run.out_of_bounds
