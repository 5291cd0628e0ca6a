"""`python -m trickle.engine`: fetch what Spark needs before the first session does."""

import sys

from trickle.engine.jars import jars
from trickle.errors import EnvironmentProblem

try:
    jars()
except EnvironmentProblem as problem:
    sys.exit(f"trickle: error: {problem.message}")
