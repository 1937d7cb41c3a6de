"""Which tests there are: those of servers that tools/servers.py installed."""

import os

from tests.servers import lite, llama, proxy_py, transformers_serve

SERVERS = {
    "test_llama_cpp.py": llama.FOLDER_VARIABLE,
    "test_litellm.py": lite.FOLDER_VARIABLE,
    "test_proxy_py.py": proxy_py.FOLDER_VARIABLE,
    "test_transformers.py": transformers_serve.FOLDER_VARIABLE,
}
collect_ignore = [name for name, variable in SERVERS.items() if variable not in os.environ]
