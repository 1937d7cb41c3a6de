import os

from tests.frameworks.running import FOLDER_VARIABLE

collect_ignore_glob = [] if FOLDER_VARIABLE in os.environ else ["test_*.py"]
