# title: the activation is written back over the gate
# base: honest/h_swiglu_sigmoid
# replace: tl.store(out_ptr + offsets, gate * tl.sigmoid(gate) * up => gate *= tl.sigmoid(gate)\n    SAVE\n    STORE
# replace: SAVE => tl.store(gate_ptr + offsets, gate, mask=mask)
# replace: STORE => tl.store(out_ptr + offsets, gate * up
# expect: state_violation state.input_changed
