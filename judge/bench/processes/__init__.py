"""Children: forked, watched, ended; who waits and who stays. No torch in the runner's side."""
