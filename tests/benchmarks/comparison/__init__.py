"""How fast is the judge? Side by side with a plain one, on kernels kept for the purpose. No Django."""
