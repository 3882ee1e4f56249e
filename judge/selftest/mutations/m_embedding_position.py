# title: the position is taken from the batch
# base: honest/h_embedding_row
# replace: place = pid % length => place = pid // length
# expect: wrong value.
