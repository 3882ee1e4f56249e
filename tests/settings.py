"""Settings of the suite: a private data folder, no broker, no channel server. Nothing touches the developer's own."""

from __future__ import annotations

import os
import tempfile

# Before the site's settings read the environment.
if not os.environ.get("ADAEXPLORE_DATA"):
    os.environ["ADAEXPLORE_DATA"] = tempfile.mkdtemp(prefix="adaexplore-test-")
os.environ.setdefault("OMP_NUM_THREADS", "1")
for name in ("LLM_API_KEY", "OPENAI_API_KEY", "LLM_BASE_URL", "OPENAI_BASE_URL"):
    os.environ.pop(name, None)  # no test may reach a real endpoint

from adaexplore_site.settings import *  # noqa: E402, F403

CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
CELERY_BROKER_URL = "memory://"
CACHES = {**CACHES, "default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}  # noqa: F405  # tests count queries
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
if "sqlite3" in str(DATABASES["default"]["ENGINE"]):  # noqa: F405
    # A file, as in production: the in-memory database shares one cache between threads and refuses their writes.
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}  # noqa: F405
