"""``python -m privfunnel`` is the command ``privfunnel``, and both begin here."""


def run() -> None:
    """Run the command line; Ctrl-C while it is still being loaded ends it quietly."""
    try:
        from privfunnel.cli import main
        from privfunnel.signals import own_process
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    own_process()
    main(prog_name="privfunnel")


if __name__ == "__main__":
    run()
