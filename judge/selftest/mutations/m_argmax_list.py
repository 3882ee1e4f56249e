# title: a list is returned where the reference returns a tuple
# base: honest/h_argmax_block
# replace: return value, place => return [value, place]
# expect: wrong_structure structure.nesting
