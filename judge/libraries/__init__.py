"""What the installed torch and Triton provide, asked once per version."""
