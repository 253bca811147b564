"""The linear-programming view: a channel as weights on posteriors p(x|y), shared by ``perfect`` and ``columns``.

:mod:`.lp` sets the program up, :mod:`.components` split the table, :mod:`.points` and :mod:`.boxes` are single
posteriors and boxes of them, :mod:`.cholesky` solves Newton's systems, :mod:`.exact_weights` and :mod:`.assembly` make
a channel.
"""
