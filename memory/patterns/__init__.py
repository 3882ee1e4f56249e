"""Known errors of Triton, torch and the judge: what each is called, and what is to be learned from it. Pure."""
