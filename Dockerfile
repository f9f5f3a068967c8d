# whence serve in a container, as an ordinary user, on a file system that is read only:
#   docker build -t whence .
#   docker run --rm --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges -p 8000:8000 whence
# The address with its token is printed at the start: docker logs. A token of your own: -e WHENCE_TOKEN=…
# Other models: mount a folder, `-v ./my-model:/models/my-model:ro`, and name it after the image: whence /models/my-model
FROM python:3.12-slim

WORKDIR /app
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY src ./src
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu '.[web]' \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin whence

USER 10001
ENV HF_HUB_OFFLINE=1 HF_HOME=/tmp/hf HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=5)"]
ENTRYPOINT ["whence", "serve", "--host", "0.0.0.0", "--no-open", "--log-level", "info"]
