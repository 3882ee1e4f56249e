"""Django settings. Everything that differs between installations comes from the environment through `env`."""

from __future__ import annotations

import sys

from csp.constants import NONCE, NONE, SELF

from adaexplore_site.core import env, private_files

BASE_DIR = env.BASE_DIR
DATA_DIR = env.data_dir()
# Every process of ours reads this file first: what it writes from here on is for this account only (ADR 45).
sys.stderr.writelines(f"{line}\n" for line in private_files.prepare(DATA_DIR))

DEBUG = env.flag("DEBUG")
SECRET_KEY = env.secret_key()
ALLOWED_HOSTS = env.text("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")
CSRF_TRUSTED_ORIGINS = [origin for origin in env.text("CSRF_TRUSTED_ORIGINS").split(",") if origin]

INSTALLED_APPS = [
    *(["daphne"] if "runserver" in sys.argv else []),  # its runserver has sockets; everybody else would load Twisted
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "django_htmx",
    "template_partials",
    "csp",
    "axes",
    "ninja",  # for the files of its reference
    "adaexplore_site",
    "judge",
    "memory",
    "search",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.gzip.GZipMiddleware",  # above WhiteNoise: static files are compressed too
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "adaexplore_site.core.middleware.SignInRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
    "adaexplore_site.core.middleware.NulIsBadInput",
    "adaexplore_site.activity.trail.UndoOffer",
    "adaexplore_site.activity.views.RemovedPages",
]

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]

ROOT_URLCONF = "adaexplore_site.urls"
ASGI_APPLICATION = "adaexplore_site.asgi.application"

TEMPLATES = [
    {
        "NAME": "django",  # as template_partials knows it
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "adaexplore_site.core.access.context",
                "adaexplore_site.palette.commands.context",
                "memory.rules.views.context",
                "adaexplore_site.palette.shell_figures.context",
                "adaexplore_site.notifications.services.context",
            ],
        },
    },
]

DATABASES = {"default": env.database()}
# Requests that the web process works on at once; each holds a thread and, on PostgreSQL, up to two connections.
WEB_REQUESTS = env.integer("WEB_REQUESTS", 16, minimum=1, maximum=200)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.redis_url()
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "adaexplore"},
    },
}

# Of each process. Differences may be long: few are kept.
_MEMORY = "django.core.cache.backends.locmem.LocMemCache"
CACHES = {
    "default": {"BACKEND": _MEMORY},
    "diffs": {"BACKEND": _MEMORY, "LOCATION": "diffs", "OPTIONS": {"MAX_ENTRIES": 40}},
}

CELERY_BROKER_URL = env.celery_url()
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "io"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
# A page must not wait for a broker that is away: the reaper sends again what could not be sent.
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_connect_timeout": 1.0, "socket_timeout": 5.0}
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.2}
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "beat-schedule")
CELERY_BEAT_SCHEDULE = {
    # One that waited too long for a worker is dropped: the next is on its way.
    **{
        name.replace("_", "-"): {"task": f"search.tasks.{name}", "schedule": 5.0, "options": {"expires": 5.0}}
        for name in ("reap", "reap_rechecks", "watch_budget", "carry_campaigns", "carry_adapts", "carry_jobs")
    },
    # The first one is each worker's own, at its start.
    "check-devices": {"task": "search.tasks.check_devices", "schedule": 3600.0, "options": {"expires": 600.0}},
    "webhooks": {"task": "adaexplore_site.tasks.deliver_webhooks", "schedule": 5.0, "options": {"expires": 5.0}},
    "forget-deliveries": {
        "task": "adaexplore_site.tasks.forget_deliveries",
        "schedule": 3600.0,
        "options": {"expires": 600.0},
    },
    "recheck-rules": {"task": "memory.tasks.recheck_rules", "schedule": 600.0, "options": {"expires": 120.0}},
    "rest-devices": {"task": "search.tasks.rest_devices", "schedule": 300.0, "options": {"expires": 60.0}},
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "run-list"
LOGOUT_REDIRECT_URL = "sign-in"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_NAME = "adaexplore_session"
CSRF_COOKIE_NAME = "adaexplore_csrf"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
HTTPS = env.flag("HTTPS")
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS

AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_VERBOSE = False

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "object-src": [NONE],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "worker-src": [SELF],
        "form-action": [SELF],
        "connect-src": [SELF, "ws:", "wss:"],
    },
}

LANGUAGE_CODE = "en"
# A language is listed here when its catalogs are complete (CONTRIBUTING.md); a request's Accept-Language chooses.
LANGUAGES = [("en", "English")]
LOCALE_PATHS = [BASE_DIR / "adaexplore_site" / "locale"]
USE_I18N = True
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
STATIC_ROOT.mkdir(exist_ok=True)
_NODE = BASE_DIR / "static" / "node_modules"
STATICFILES_DIRS = [
    ("css", BASE_DIR / "static" / "css"),
    ("js", BASE_DIR / "static" / "js"),
    ("img", BASE_DIR / "static" / "img"),
    *(
        (f"vendor/{name}", _NODE / name / "dist")
        for name in ("d3-hierarchy", "uplot")
        if (_NODE / name / "dist").is_dir()
    ),
]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

# Problems: UTF-8 Python of at most this many bytes. Candidates may be larger (judge.values.Limits).
MAX_PROBLEM_BYTES = env.integer("MAX_PROBLEM_KIB", 256, minimum=1, maximum=1024) << 10
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 << 20
FILE_UPLOAD_MAX_MEMORY_SIZE = 2 << 20

# The model endpoint of the `openai` proposer. The key never leaves this process's memory.
LLM_BASE_URL = env.text("LLM_BASE_URL", env.text("OPENAI_BASE_URL"))
LLM_API_KEY = env.text("LLM_API_KEY", env.text("OPENAI_API_KEY"))
LLM_MODEL = env.text("LLM_MODEL", env.text("OPENAI_MODEL"))
LLM_TIMEOUT_S = env.integer("LLM_TIMEOUT_S", 180, minimum=1, maximum=3600)
LLM_STREAM = env.flag("LLM_STREAM", True)
# A JSON file of prices (docs/models.md). Its rows go before prices set by people and those of genai-prices.
LLM_PRICES = env.text("LLM_PRICES")

# Judge: GPU architecture that the interpreter device compiles for and models.
JUDGE_TARGET = env.text("JUDGE_TARGET", "sm_90")
JUDGE_MIN_SANDBOX = env.text("JUDGE_MIN_SANDBOX", "auto")
# Time torch.compile's max-autotune, too, when a kernel becomes a best on a GPU: a minute or more, once a problem.
JUDGE_MAX_AUTOTUNE = env.flag("JUDGE_MAX_AUTOTUNE")
# A device whose calibration kernel differs from itself by more than this share is quarantined.
JUDGE_NOISE_FLOOR = env.number("JUDGE_NOISE_PERCENT", 3.0, minimum=0.1, maximum=50.0) / 100
# A folder shared with the machines of enrolled devices: jobs are written there and outcomes read, without a person.
JUDGE_FOLDER = env.text("JUDGE_FOLDER")

# Stand-ins for storms and load (tests/faults/site.py): the class of the benches, and proposers by name. Not to be had
# from the environment, so that no installation judges with them by accident.
JUDGE_BENCH = ""
SEARCH_PROPOSERS: dict[str, str] = {}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "filters": {"refusals": {"()": "adaexplore_site.core.log_filters.NoTraceOfRefusals"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain", "filters": ["refusals"]}},
    "root": {"handlers": ["console"], "level": env.text("LOG_LEVEL", "INFO")},
    "loggers": {
        "axes": {"level": "WARNING"},
        "django.channels.server": {"level": "WARNING"},
        "httpx2": {"level": "WARNING"},  # its INFO line prints the whole address, passwords and tokens included
        "psycopg.pool": {"level": "WARNING"},  # INFO: two lines for each request
        "openai": {"level": "WARNING"},  # its DEBUG lines print whole requests
    },
}
