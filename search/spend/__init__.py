"""Money, tokens and device time over many searches, by search, by model and by kind of call."""
