SECRET_KEY = "a test's"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop_django"
MIDDLEWARE = []
