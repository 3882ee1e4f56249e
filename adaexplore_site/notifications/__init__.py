"""What a person should hear of, read from rows: no list of messages is kept, only until when each person has looked."""
