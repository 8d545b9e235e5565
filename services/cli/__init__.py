"""The command line, `mnemolog`. Each subcommand is a module, imported when it is asked for."""
