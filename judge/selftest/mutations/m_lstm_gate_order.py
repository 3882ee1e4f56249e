# title: input and forget gate are swapped
# base: honest/h_lstm_cell
# replace: row, 0, cols, mask, width => row, 4, cols, mask, width
# replace: row, 1, cols, mask, width => row, 0, cols, mask, width
# replace: row, 4, cols, mask, width => row, 1, cols, mask, width
# expect: wrong value.
