"""`python -m wrs_emulator`: the program with the same arguments."""

import os
import subprocess
import sys

from wrs_emulator import binary

try:
    command = [binary(), *sys.argv[1:]]
except FileNotFoundError as error:
    sys.exit(f"error: {error}")
if os.name == "nt":
    sys.exit(subprocess.run(command).returncode)
os.execv(command[0], command)
