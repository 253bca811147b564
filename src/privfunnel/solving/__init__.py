"""The front door: a request is posed to a problem, one algorithm answers it, and one judge makes a solution of that.

``point`` has :func:`privfunnel.solve`, ``tracing`` :func:`privfunnel.trace`. ``dispatch`` says who is asked.
"""
