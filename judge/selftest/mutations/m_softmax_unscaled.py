# title: the temperature is forgotten
# base: honest/h_softmax_one_block
# replace: 1.0 / self.temperature => 1.0
# expect: wrong value.
