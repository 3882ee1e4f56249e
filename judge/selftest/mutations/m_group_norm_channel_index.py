# title: gain and shift of the wrong channel: the group is forgotten
# base: honest/h_group_norm_block
# replace: channel = group * per_group + offs // area => channel = offs // area
# expect: wrong value.
