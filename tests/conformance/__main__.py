from mnemolog.services.cli.main import main
from mnemolog.services.families import FAMILIES
from tests.conformance import LISTED

if __name__ == "__main__":
    main((*FAMILIES, LISTED))
