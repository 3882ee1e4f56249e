"""The judge judged: attacks, honest kernels, planted bugs and equal twins, each with the verdict it must get."""
