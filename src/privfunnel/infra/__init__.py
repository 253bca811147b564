"""What all stands on and no privacy is in: files, locks, signals, compiling, checks of arguments, news of runs."""
