"""A search whose kernels are judged by a served folder, beside the same search judged here."""
