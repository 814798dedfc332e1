"""The application for gunicorn (`_wsgi:app`), under label-studio-ml 1.0.9 and 2.x."""

import logging
import os

from label_studio_ml.api import init_app
from model import NewModel

logging.basicConfig(
    level=os.environ.get("LOG_LEVEL", "INFO"), format="[%(asctime)s] [%(levelname)s] [%(name)s] %(message)s"
)


def _make_app():
    """2.x takes the model alone; 1.0.9 wants a folder for its own state as well."""
    folder = os.path.join(os.environ.get("MODEL_DIR", "data"), "sdk")
    try:
        return init_app(model_class=NewModel, model_dir=folder)
    except TypeError:
        return init_app(model_class=NewModel)


app = _make_app()

if __name__ == "__main__":
    app.run(host="127.0.0.1", port=int(os.environ.get("PORT", "9090")))
