"""``python -m recollect``."""

import sys

from recollect.cli.main import main

sys.exit(main())
