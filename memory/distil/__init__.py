"""From one failure to one lesson, or to the reason why there is none."""
