# Mnemolog in a container: see docs/operations.md. Nothing but hashed packages is installed.
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1

# The lock holds the developers' tools too; locked.py picks what runs, and what builds.
COPY pyproject.toml requirements.lock ./
COPY infra/container/locked.py infra/container/locked.py
RUN python infra/container/locked.py > /tmp/runtime.lock \
 && python infra/container/locked.py hatchling > /tmp/build.lock
RUN python -m venv /opt/mnemolog \
 && /opt/mnemolog/bin/pip install --require-hashes --only-binary :all: -r /tmp/runtime.lock
RUN python -m venv /tmp/build \
 && /tmp/build/bin/pip install --require-hashes --only-binary :all: -r /tmp/build.lock

COPY README.md LICENSE ./
COPY events events
COPY projections projections
COPY services services
COPY infra infra
COPY mnemolog mnemolog
RUN /tmp/build/bin/pip wheel --no-deps --no-index --no-build-isolation --wheel-dir /tmp/own . \
 && /opt/mnemolog/bin/pip install --no-deps --no-index /tmp/own/mnemolog-*.whl

# The model's files are checked by their sha256. Behind a mirror: --build-arg HF_ENDPOINT=https://…
ARG HF_ENDPOINT
RUN /opt/mnemolog/bin/mnemolog models pull bge-small-en-v1.5 --models-dir /opt/models


FROM python:3.11.14-slim-bookworm
RUN useradd --system --uid 10001 --user-group --no-create-home --home-dir /var/lib/mnemolog mnemolog \
 && install --directory --owner mnemolog --group mnemolog --mode 0700 /var/lib/mnemolog
COPY --from=build /opt/mnemolog /opt/mnemolog
COPY --from=build /opt/models /opt/models
ENV PATH=/opt/mnemolog/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    MNEMOLOG_DATA=/var/lib/mnemolog \
    MNEMOLOG_MODELS=/opt/models
USER 10001:10001
WORKDIR /var/lib/mnemolog
VOLUME /var/lib/mnemolog
EXPOSE 3000
# A node that follows a long log for the first time takes its time to be ready.
HEALTHCHECK --interval=15s --timeout=6s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:3000/healthz', timeout=5)"]
ENTRYPOINT ["mnemolog"]
CMD ["serve", "--host", "0.0.0.0"]
