"""``python -m privfunnel`` is the command ``privfunnel``."""

from privfunnel.cli import main

main(prog_name="privfunnel")
