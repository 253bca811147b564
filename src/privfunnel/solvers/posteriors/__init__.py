"""The linear-programming view: a channel as weights on posteriors p(x|y), shared by ``perfect`` and ``global_``."""
