# title: hidden state and cell are returned in each other's place
# base: honest/h_lstm_cell
# replace: return hidden, new => return new, hidden
# expect: wrong value.
