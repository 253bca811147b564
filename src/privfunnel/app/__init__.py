"""Where people are: the command line and the local page. They parse, call and show; there is no mathematics here."""
