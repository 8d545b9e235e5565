"""`mnemolog serve` with other limits than it has: `python -m tests.attack.served MODULE.NAME=VALUE…
-- serve …`, so that tests need not wait as long, or send as much, as real ones would. Modules
are the gateway's, or with `node.` the node's."""

from __future__ import annotations

import importlib
import json
import sys


def main() -> None:
    end = sys.argv.index("--")
    for change in sys.argv[1:end]:
        name, _, value = change.partition("=")
        module, _, constant = name.rpartition(".")
        where = module if module.startswith("node.") else f"gateway.{module}"
        found = importlib.import_module(f"mnemolog.services.{where}")
        assert hasattr(found, constant), name
        setattr(found, constant, json.loads(value))
    sys.argv = ["mnemolog", *sys.argv[end + 1 :]]
    from mnemolog.services.cli.main import main as mnemolog

    mnemolog()


if __name__ == "__main__":
    main()
