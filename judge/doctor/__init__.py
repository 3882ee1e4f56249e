"""What protects this machine from the code it judges, tried rather than asked, and what to do about gaps. No Django."""
